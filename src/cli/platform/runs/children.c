/* SPDX-License-Identifier: Apache-2.0 */
/* `weft fork`, `weft resume` and `weft promote`: runs made from other runs. */
#include "cli/platform/launch/run_child.h"
#include "platform/registry/run/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct {
    const char *checkpoint;
    bool code;
    struct run_options run;
    struct run_submit_shown shown;
} chosen;

static weft_status children_run(struct command_call *call, struct error *error)
{
    return run_child_make(call, call->command->details, error);
}

/* ---- fork ---- */

static const struct cli_option fork_options[] = {
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

const struct command command_fork = {
    .name = "fork",
    .group = COMMAND_PLATFORM,
    .summary = "run a run again with something changed",
    .description =
        "Makes a new run with the code, command, environment and resources of RUN, except for what is given here. "
        "After \"--\", options replace the same options of RUN's command or are added to it; a whole command, "
        "which does not begin with '-', replaces RUN's. Options cannot change a script (sh -c ...): give the whole "
        "command. 'weft diff RUN NEW' shows what changed.\n\n"
        "weft train counts --steps from the first step, even with --checkpoint.",
    .examples = "weft fork 12 -- --learning-rate 0.01\n"
                "weft fork 12 --checkpoint newest --time 12h -- --steps 20000\n"
                "weft fork baseline --name other-seed --env SEED=2\n",
    .words = "RUN",
    .takes_program = true,
    COMMAND_OPTIONS(fork_options),
    .run = children_run,
    .details =
        &(const struct run_child){.route = "fork", .options = &chosen.run, .shown = &chosen.shown, .write = fork_write},
};

/* ---- resume ---- */

/* Only how it relates to other runs: what it computes is RUN's. */
static const struct cli_option resume_options[] = {
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

const struct command command_resume = {
    .name = "resume",
    .group = COMMAND_PLATFORM,
    .summary = "continue a run that was stopped or failed",
    .description =
        "Makes a new run with the settings of RUN, except for what is given here, which starts from RUN's newest "
        "checkpoint. For that, the program must look for a checkpoint in WEFT_CHECKPOINT_DIR, as weft train does. A "
        "run that was preempted continues by itself. While the new run waits or runs, RUN cannot be resumed again.",
    .examples = "weft resume 12\nweft resume 12 --no-preemptible\n",
    .words = "RUN",
    COMMAND_OPTIONS(resume_options),
    .run = children_run,
    .details = &(
        const struct run_child){.route = "fork", .options = &chosen.run, .shown = &chosen.shown, .write = resume_write},
};

/* ---- promote ---- */

static const struct cli_option promote_options[] = {
    CLI_GROUP("Run"),
    RUN_OPTIONS(chosen.run, RUN_DEFAULT_PARENT),
    RUN_CHILD_OPTIONS(chosen.run),
    RUN_SUBMIT_OPTIONS(chosen.shown),
};

static bool is_word(const cJSON *item, const char *word)
{
    return cJSON_IsString(item) && strcmp(item->valuestring, word) == 0;
}

/* Whether the parent only waits for weft shell or exec (weft submit --interactive without a program). */
static bool only_sleeps(const struct run_parent *parent)
{
    const cJSON *command = field(parent->specification, "command");
    return cJSON_GetArraySize(command) == 2 && is_word(cJSON_GetArrayItem(command, 0), "sleep") &&
           is_word(cJSON_GetArrayItem(command, 1), "infinity");
}

static weft_status promote_write(struct command_call *call, struct platform *platform, const struct run_parent *parent,
                                 struct json_writer *body, char done[RUN_CHILD_DONE_BYTES], struct error *error)
{
    const char *name = field_text(parent->object, "name");
    int length =
        snprintf(done, RUN_CHILD_DONE_BYTES, "a planned run with code and settings of run %" PRId64, parent->run);
    if (*name && !chosen.run.name)
        snprintf(done + length, RUN_CHILD_DONE_BYTES - (size_t)length, ", called '%.60s-planned'", name);
    if (!chosen.run.launch && only_sleeps(parent))
        json_put_text(body, "launch", "ranks"); /* once per node was meant for the sleep, not for the program */
    return run_child_write_command(call, parent, body, error);
}

static weft_status children_promote_run(struct command_call *call, struct error *error)
{
    if (call->program_count == 0)
        return command_misused(call,
                               error_set(error, WEFT_ERROR_ARGUMENT,
                                         "%s needs a program: %s RUN -- PROGRAM [ARGUMENTS]", call->name, call->name));
    return children_run(call, error);
}

const struct command command_promote = {
    .name = "promote",
    .group = COMMAND_PLATFORM,
    .summary = "make a planned run of an interactive one",
    .description =
        "Runs PROGRAM as a planned run, with the environment and resources of an interactive run and the code in its "
        "directory as it is now, including all changes. Without --name, it is called as RUN is, followed by -planned.",
    .examples = "weft submit -p vision --interactive\nweft promote 12 --time 12h -- weft train --steps 20000\n",
    .words = "RUN",
    .takes_program = true,
    COMMAND_OPTIONS(promote_options),
    .run = children_promote_run,
    .details =
        &(const struct run_child){
            .route = "promote", .options = &chosen.run, .shown = &chosen.shown, .write = promote_write},
};
