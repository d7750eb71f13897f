/* SPDX-License-Identifier: Apache-2.0 */
/** Runs that are made from other runs: shared by fork, resume and promote. */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_RUN_CHILD_H
#define WEFT_CLI_PLATFORM_LAUNCH_RUN_CHILD_H

#include "cli/frame/command.h"
#include "cli/platform/client/client.h"
#include "cli/platform/launch/run_options.h"
#include "cli/platform/launch/run_submit.h"

#define RUN_CHILD_DONE_BYTES 160

/** The run that the new one is made from. */
struct run_parent {
    int64_t run;
    cJSON *object; /**< GET /runs/N */
    const char *project, *state;
    const cJSON *specification;
};

/** How a command makes the new run. */
struct run_child {
    const char *route;                 /**< "fork" or "promote": POST /runs/N/ROUTE */
    const struct run_options *options; /**< may be NULL */
    struct run_submit_shown *shown;
    /** Write keys that replace the parent's into the open object; `done` is for the message "run 13 is ...". */
    weft_status (*write)(struct command_call *call, struct platform *platform, const struct run_parent *parent,
                         struct json_writer *body, char done[RUN_CHILD_DONE_BYTES], struct error *error);
};

/** Run the whole command, as `child` describes it. The parent is call->words[0]. */
weft_status run_child_make(struct command_call *call, const struct run_child *child, struct error *error);

/** Write "command", if a program was given: options after "--" change the parent's, anything else replaces it.
 * Errors: ARGUMENT if the parent's command is a shell script (sh -c), which options would not reach. */
weft_status run_child_write_command(const struct command_call *call, const struct run_parent *parent,
                                    struct json_writer *body, struct error *error);

/**
 * Write "checkpoint": the one called `wanted`, the "newest" or the "best"; NULL: the newest if there is one. `*step` is
 * its step, 0 if unknown, -1 if there is no checkpoint. Errors: ARGUMENT if no checkpoint has that name; the message
 * lists those that exist.
 */
weft_status run_child_write_checkpoint(struct platform *platform, const struct run_parent *parent, const char *wanted,
                                       struct json_writer *body, int64_t *step, struct error *error);

/**
 * Check that a training from a checkpoint of step `step` has steps left. `weft train --steps` counts from the first step
 * of the first run. Errors: ARGUMENT if call->program gives fewer steps than `step`.
 */
weft_status run_child_check_steps(const struct command_call *call, const struct run_parent *parent, int64_t step,
                                  struct error *error);

#endif
