/* SPDX-License-Identifier: Apache-2.0 */
/* `weft fork`: a run again, with something changed. */
#include "cli/platform/launch/run_child.h"

#include <inttypes.h>
#include <stdio.h>

static struct {
    const char *checkpoint;
    bool code;
    struct run_options run;
    struct run_submit_shown shown;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("Run"),
    CLI_TEXT("checkpoint", 'c', "NAME", &chosen.checkpoint, NULL,
             "start from this checkpoint of RUN, or from its newest or best", .default_text = "start from scratch"),
    CLI_FLAG("code", 0, &chosen.code, "use the code of the working directory instead of RUN's"),
    RUN_OPTIONS(chosen.run, RUN_DEFAULT_PARENT),
    RUN_CHILD_OPTIONS(chosen.run),
    RUN_SUBMIT_OPTIONS(chosen.shown),
};

static weft_status fork_write(struct command_call *call, struct platform *platform, const struct run_parent *parent,
                              struct json_writer *body, char done[RUN_CHILD_DONE_BYTES], struct error *error)
{
    int64_t step = -1;
    weft_status status = run_child_write_command(call, parent, body, error);
    if (status == WEFT_OK && chosen.checkpoint)
        status = run_child_write_checkpoint(platform, parent, chosen.checkpoint, body, &step, error);
    if (status == WEFT_OK)
        status = run_child_check_steps(call, parent, step, error);
    if (status == WEFT_OK && chosen.code)
        status = run_submit_code(platform, parent->project, true, &chosen.shown, body, error);
    snprintf(done, RUN_CHILD_DONE_BYTES, "a fork of run %" PRId64 ", submitted to project %s", parent->run,
             parent->project);
    return status;
}

static weft_status runs_fork_run(struct command_call *call, struct error *error)
{
    static const struct run_child child = {
        .route = "fork", .options = &chosen.run, .shown = &chosen.shown, .write = fork_write};
    return run_child_make(call, &child, error);
}

const struct command command_fork = {
    .name = "fork",
    .group = COMMAND_PLATFORM,
    .summary = "run a run again with something changed",
    .description =
        "Makes a new run with the code, command, environment and resources of RUN, except for what is given here. "
        "After \"--\", options replace the same options of RUN's command, or are added to it; a whole command, which "
        "does not begin with '-', replaces RUN's. Options cannot change a script (sh -c ...): give the whole command. "
        "'weft diff RUN NEW' shows what changed.\n\n"
        "--steps of weft train counts from the first step, also with --checkpoint.",
    .examples = "weft fork 12 -- --learning-rate 0.01\n"
                "weft fork 12 --checkpoint newest --time 12h -- --steps 20000\n"
                "weft fork baseline --name other-seed --env SEED=2\n",
    .words = "RUN",
    .takes_program = true,
    COMMAND_OPTIONS(options),
    .run = runs_fork_run,
};
