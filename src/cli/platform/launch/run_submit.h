/* SPDX-License-Identifier: Apache-2.0 */
/** Shared by the commands that make a run (submit, resume, fork, promote): sending the request, printing the result. */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_RUN_SUBMIT_H
#define WEFT_CLI_PLATFORM_LAUNCH_RUN_SUBMIT_H

#include "cli/frame/command.h"
#include "cli/platform/client/client.h"
#include "platform/registry/run_specification.h"
#include "platform/snapshot/snapshot.h"

/** What is printed about a new run. */
struct run_submit_shown {
    bool json;                           /**< the server's reply as a line of JSON */
    bool quiet;                          /**< only its number */
    bool follow;                         /**< print its output until it has ended; the exit code says how */
    bool enter;                          /**< set by the caller: suggest `weft shell` instead of `weft logs` */
    struct snapshot_omissions omissions; /**< of run_submit_code(): files that were left out */
};

#define RUN_SUBMIT_OPTIONS(shown)                                                                                      \
    CLI_GROUP("Output"),                                                                                               \
        CLI_FLAG("follow", 'f', &(shown).follow,                                                                       \
                 "print the run's output until it ends; exit with 0 if it succeeds, 1 if it fails, and 125 if the "    \
                 "server is unreachable for more than a minute"),                                                      \
        CLI_FLAG("quiet", 'q', &(shown).quiet, "print only the new run's number"),                                     \
        CLI_FLAG("json", 0, &(shown).json, "print a line of JSON; \"left_out\" lists every file left out")

/**
 * Upload a snapshot of the working directory to the project, if `snapshot`, and write its id and git's commit into the
 * open object. Files that were left out are named on standard error; with --json, run_submit_send() prints all of them.
 */
weft_status run_submit_code(struct platform *platform, const char *project, bool snapshot,
                            struct run_submit_shown *shown, struct json_writer *body, struct error *error);

/** Write `words`, NULL at the end, as "command". */
void run_submit_words(char *const *words, struct json_writer *body);

/** POST the body with a new idempotency key, print the result, and follow the run with --follow. `done` completes the
 * message "run 13 is ...": "submitted to project vision". */
weft_status run_submit_send(struct command_call *call, struct platform *platform, const struct platform_path *path,
                            const struct json_writer *body, const char *done, struct run_submit_shown *shown,
                            struct error *error);

#endif
