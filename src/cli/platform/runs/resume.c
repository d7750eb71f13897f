/* SPDX-License-Identifier: Apache-2.0 */
/* `weft resume`: a run that has ended goes on as a new one. */
#include "cli/platform/launch/run_child.h"
#include "platform/registry/run/state.h"

#include <inttypes.h>
#include <stdio.h>

static struct {
    struct run_options run; /* only how it stands to others: what it computes is RUN's */
    struct run_submit_shown shown;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("Scheduling"),       RUN_PREEMPTIBLE_OPTION(chosen.run), RUN_SPAN_PODS_OPTION(chosen.run),
    RUN_CHILD_OPTIONS(chosen.run), RUN_SUBMIT_OPTIONS(chosen.shown),
};

static weft_status resume_write(struct command_call *call, struct platform *platform, const struct run_parent *parent,
                                struct json_writer *body, char done[RUN_CHILD_DONE_BYTES], struct error *error)
{
    int64_t step;
    enum run_state state;
    bool known = run_state_find(parent->state, &state);
    if (known && !run_state_is_final(state))
        return error_set(error, WEFT_ERROR_STATE,
                         "run %" PRId64 " is %s: it goes on by itself, and there is nothing to resume", parent->run,
                         parent->state);
    if (known && state == RUN_SUCCEEDED)
        return error_set(error, WEFT_ERROR_STATE,
                         "run %" PRId64 " has succeeded: nothing of it is left to do; 'weft fork %" PRId64
                         " --checkpoint newest -- ...' goes on with other arguments",
                         parent->run, parent->run);
    json_put_bool(body, "resume", true);
    weft_status status = run_child_write_checkpoint(platform, parent, NULL, body, &step, error);
    snprintf(done, RUN_CHILD_DONE_BYTES, "run %" PRId64 " again, %s", parent->run,
             status == WEFT_OK && step >= 0 ? "from its newest checkpoint"
                                            : "from the start, for it left no checkpoint");
    return status;
}

static weft_status resume_run(struct command_call *call, struct error *error)
{
    static const struct run_child child = {
        .route = "fork", .options = &chosen.run, .shown = &chosen.shown, .write = resume_write};
    return run_child_make(call, &child, error);
}

const struct command command_resume = {
    .name = "resume",
    .group = COMMAND_PLATFORM,
    .summary = "go on with a run that was stopped or failed",
    .description =
        "Makes a new run with everything of RUN but what is given here, which begins from RUN's newest checkpoint. For "
        "a from there, it has to look for a checkpoint in WEFT_CHECKPOINT_DIR, as weft train does. A run that was "
        "preempted needs nobody: it goes on by itself. While the new run waits or runs, RUN is not resumed again.",
    .examples = "weft resume 12\nweft resume 12 --no-preemptible\n",
    .words = "RUN",
    COMMAND_OPTIONS(options),
    .run = resume_run,
};
