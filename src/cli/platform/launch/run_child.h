/* SPDX-License-Identifier: Apache-2.0 */
/** Runs that are made from others: what fork, resume and promote have in common. */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_RUN_CHILD_H
#define WEFT_CLI_PLATFORM_LAUNCH_RUN_CHILD_H

#include "cli/frame/command.h"
#include "cli/platform/client/client.h"
#include "cli/platform/launch/run_options.h"
#include "cli/platform/launch/run_submit.h"

#define RUN_CHILD_DONE_BYTES 160

/** What the new run is made from. */
struct run_parent {
    int64_t run;
    cJSON *object; /**< GET /runs/N */
    const char *project, *state;
    const cJSON *specification;
};

/** How a command makes one. */
struct run_child {
    const char *route;                 /**< "fork" or "promote": POST /runs/N/ROUTE */
    const struct run_options *options; /**< NULL: it has none */
    struct run_submit_shown *shown;
    /** Write keys that replace the parent's into the open object; `done` is for the message "run 13 is ...". */
    weft_status (*write)(struct command_call *call, struct platform *platform, const struct run_parent *parent,
                         struct json_writer *body, char done[RUN_CHILD_DONE_BYTES], struct error *error);
};

/** The whole command: the parent is call->words[0], the rest as `child` says. */
weft_status run_child_make(struct command_call *call, const struct run_child *child, struct error *error);

/** Write "command", if a program was given: options after "--" change the parent's, anything else replaces it.
 * Errors: ARGUMENT if the parent's command is a shell script (sh -c), which options would not reach. */
weft_status run_child_write_command(const struct command_call *call, const struct run_parent *parent,
                                    struct json_writer *body, struct error *error);

/**
 * Write "checkpoint": the one called `wanted`, the "newest" or the "best"; where `wanted` is NULL the newest if there
 * is one. `*step` is its step, 0 if unknown, and -1 if there is no checkpoint. Errors: ARGUMENT if there is none of
 * that name, and which there are.
 */
weft_status run_child_write_checkpoint(struct platform *platform, const struct run_parent *parent, const char *wanted,
                                       struct json_writer *body, int64_t *step, struct error *error);

/**
 * Check that a training from a checkpoint of step `step` has steps left: where the new command is `weft train` and
 * call->program says --steps, it counts the checkpoint's, too. Errors: ARGUMENT if it is smaller than `step`.
 */
weft_status run_child_check_steps(const struct command_call *call, const struct run_parent *parent, int64_t step,
                                  struct error *error);

#endif
