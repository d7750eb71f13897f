/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Text made from a template and an object of the server's: cells of tables, and messages.
 *
 *     "{user} is a {--role} of project {0}"        a field of the object, an option, a positional word
 *     "{created:ago}"                              a field as a time: also :clock, :elapsed, :amount, :bytes
 *     "[{ends:ago}|never]"                         the first alternative of which no value is empty
 *     "project {0}[, called {title}]"              left out where there is no title
 *     "[{closed?}(closed) ]{title}"                {closed?} writes nothing, but is empty like {closed}
 *
 * A field that is missing, null, false or "" is empty, and so are an option and a word that were not given. Numbers are
 * whole and never empty, except 0 with :nonzero. Brackets do not nest.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_CELLS_H
#define WEFT_CLI_PLATFORM_CLIENT_CELLS_H

#include "cli/frame/command.h"
#include "cli/frame/table.h"

#include <cjson/cJSON.h>

#define CELLS_BYTES 4096 /**< of a text; more is cut */

/** What a template takes its values from. */
struct cells_values {
    const struct command_call *call; /**< options and words; NULL: none */
    const cJSON *object;             /**< NULL: every field is empty */
    int64_t now;                     /**< for :ago and :elapsed */
};

/** Write the text into `buffer` and return it. */
char *cells_text(const char *template, const struct cells_values *values, char buffer[CELLS_BYTES]);

/** The option called `name` of the call's command; NULL if it has none. */
const struct cli_option *cells_option(const struct command_call *call, const char *name);

/** The text of an option ("--title") or the positional word of that number ("0"); NULL if it was not given. */
const char *cells_given(const struct command_call *call, const char *name);

/** Whether the command has the flag called `name` and it was given. */
bool cells_flag(const struct command_call *call, const char *name);

/** Print `items` as a table: a row per item, made from the `cell` of each column. Errors: MEMORY. */
weft_status cells_print_table(const struct table_column *columns, size_t count, const cJSON *items,
                              const struct command_call *call, FILE *output, struct error *error);

#endif
