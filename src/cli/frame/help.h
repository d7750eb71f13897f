/* SPDX-License-Identifier: Apache-2.0 */
/** Help made from the tables of commands: on the terminal, as a man page, as a reference page. */
#ifndef WEFT_CLI_FRAME_HELP_H
#define WEFT_CLI_FRAME_HELP_H

#include "cli/frame/command.h"

/** All commands by group: the output of `weft help`. */
void help_overview(FILE *output, const struct command *const *table, size_t count);

/** One command, with usage, options, subcommands and examples. `name` is its full name, "weft checkpoint". Options that
 * are seldom needed (cli_option.advanced) are printed with `all` only. */
void help_command(FILE *output, const char *name, const struct command *command, bool all);

/** The usage line without its newline: "weft run [options] [--] PROGRAM [ARGUMENTS]". */
void help_usage(FILE *output, const char *name, const struct command *command);

/** All commands as one man page, weft(1), in mdoc. */
void help_manual(FILE *output, const struct command *const *table, size_t count);

/** All commands as one page of Markdown. */
void help_reference(FILE *output, const struct command *const *table, size_t count);

#endif
