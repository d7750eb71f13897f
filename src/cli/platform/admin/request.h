/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Commands that list, show or change something on the server, described by tables.
 *
 * A command's ADMIN_REQUEST() describes the request: it checks the words, asks the server, and prints the reply as JSON
 * if the command has --json and it was given, else as a table or message. Paths, cells and messages are templates
 * (cli/platform/client/cells.h).
 *
 *     static const struct command close_project = {
 *         .name = "close",
 *         .summary = "accept no more runs in a project",
 *         .words = "PROJECT",
 *         COMMAND_OPTIONS(options),
 *         ADMIN_REQUEST(.method = "POST", .path = "projects/{0}/close", .done = "project {0} takes no more runs"),
 *     };
 */
#ifndef WEFT_CLI_PLATFORM_ADMIN_REQUEST_H
#define WEFT_CLI_PLATFORM_ADMIN_REQUEST_H

#include "cli/platform/client/cells.h"
#include "cli/platform/client/list.h"

/** How a field of a request's body is made from an option or a word. */
enum admin_field_kind {
    ADMIN_TEXT,   /**< as given; left out if it was not */
    ADMIN_FLAG,   /**< true if the flag was given; left out if not */
    ADMIN_BOOL,   /**< true or false */
    ADMIN_AMOUNT, /**< slot-minutes, not negative (cli/frame/amount.h) */
    ADMIN_CHANGE, /**< slot-minutes, negative or not */
    ADMIN_DAYS,   /**< a duration of whole days, as their number; left out if not given */
};

struct admin_field {
    const char *key;  /**< NULL ends an array */
    const char *from; /**< "--title", "0" */
    enum admin_field_kind kind;
};

struct admin_request {
    const char *method;       /**< NULL: GET, which shows; others change */
    const char *path;         /**< below /api/v1: "projects/{0}/members/{1}" */
    const char *project_path; /**< the path if --project was given; NULL: the same */
    const char *names[2];     /**< what each word names ("the project"), to be checked as a name; NULL: not checked */
    bool names_run;           /**< the first word is a RUN; {0} becomes its number */
    weft_status (*check)(struct command_call *call, struct error *error); /**< further checks of the command line */
    /** After an error: replace it if the first word names nothing on the server. Returns the status in `error`. */
    weft_status (*unknown)(struct platform *platform, const char *name, struct error *error);
    void (*print)(const struct command_call *call, const cJSON *reply); /**< how the reply is printed without --json */

    /* Of a change: */
    const struct admin_field *fields; /**< of the body; NULL, without `write`: there is no body */
    weft_status (*write)(struct command_call *call, struct platform *platform, struct json_writer *body,
                         struct error *error); /**< writes further fields into the body */
    const char *done;                          /**< printed on success, with the fields of the reply */

    /* Of a list, which is printed as a table or an object per line: */
    const char *items; /**< key of the array in the reply */
    const struct table_column *columns;
    size_t column_count;
    const char *empty; /**< printed instead of a table without rows; NULL: its titles */
    bool (*hides)(const cJSON *item);
    cJSON *(*arrange)(cJSON *reply, bool json); /**< makes the array, to be freed, where the reply has no `items` */
    const char *const *queries;                 /**< options that become parameters of the request, up to NULL */

    /* Of a list that is read page by page: */
    const struct platform_list *pages;
    const char *noun, *more; /**< "only the newest 20 NOUN are shown (MORE)" */
    const int64_t *limit;    /**< the option that limits it; 0: all with --all or --json, else `shown` */
    int64_t shown;
};

#define ADMIN_COLUMNS(table) .columns = table, .column_count = ARRAY_SIZE(table)
#define ADMIN_FIELDS(...)                                                                                              \
    .fields = (const struct admin_field[])                                                                             \
    {                                                                                                                  \
        __VA_ARGS__,                                                                                                   \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

/** The `run` and `details` of a command, with the members of its struct admin_request. */
#define ADMIN_REQUEST(...)                                                                                             \
    .run = admin_request_run, .details = &(const struct admin_request)                                                 \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/** A command's `run`: do what its `details` describe. */
weft_status admin_request_run(struct command_call *call, struct error *error);

/** The same for a description of the caller's choice. */
weft_status admin_request_do(struct command_call *call, const struct admin_request *request, struct error *error);

#endif
