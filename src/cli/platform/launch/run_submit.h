/* SPDX-License-Identifier: Apache-2.0 */
/** What the commands that make a run (submit, resume, fork, promote) do when they have made their request. */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_RUN_SUBMIT_H
#define WEFT_CLI_PLATFORM_LAUNCH_RUN_SUBMIT_H

#include "cli/frame/command.h"
#include "cli/platform/client/client.h"
#include "platform/registry/run_specification.h"
#include "platform/snapshot/snapshot.h"

/** How a new run is told of. */
struct run_submit_shown {
    bool json;                           /**< the server's reply as a line of JSON */
    bool quiet;                          /**< its number alone */
    bool follow;                         /**< print its output until it has ended; the exit code says how */
    bool enter;                          /**< of the caller: it is there to be entered */
    struct snapshot_omissions omissions; /**< of run_submit_code(): what its code does not have */
};

#define RUN_SUBMIT_OPTIONS(shown)                                                                                      \
    CLI_GROUP("Output"),                                                                                               \
        CLI_FLAG("follow", 'f', &(shown).follow,                                                                       \
                 "print the run's output until it ends; exit with 0 if it succeeds, 1 if it fails, and 125 if the "    \
                 "server is unreachable for more than a minute"),                                                      \
        CLI_FLAG("quiet", 'q', &(shown).quiet, "print only the new run's number"),                                     \
        CLI_FLAG("json", 0, &(shown).json, "print a line of JSON; \"left_out\" lists every file left out")

/**
 * The code of the working directory: write "snapshot" (sent to the project) and what git says into the open object.
 * What was left out goes to standard error, or with --json, all of it, to the reply that run_submit_send() prints.
 */
weft_status run_submit_code(struct platform *platform, const char *project, bool snapshot,
                            struct run_submit_shown *shown, struct json_writer *body, struct error *error);

/** Write `words`, NULL at the end, as "command". */
void run_submit_words(char *const *words, struct json_writer *body);

/** POST the body with a key of its own, say what has become of it, and follow the run if that was asked for. `done` is
 * for the message: "run 13 is submitted to project vision" with "submitted to project vision". */
weft_status run_submit_send(struct command_call *call, struct platform *platform, const struct platform_path *path,
                            const struct json_writer *body, const char *done, struct run_submit_shown *shown,
                            struct error *error);

#endif
