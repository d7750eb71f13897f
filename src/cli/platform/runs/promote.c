/* SPDX-License-Identifier: Apache-2.0 */
/* `weft promote`: an interactive run's code and settings as a planned run. */
#include "cli/platform/launch/run_child.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EXIT_MISUSED 2

static struct {
    struct run_options run;
    struct run_submit_shown shown;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("Run"),
    RUN_OPTIONS(chosen.run, RUN_DEFAULT_PARENT),
    RUN_CHILD_OPTIONS(chosen.run),
    RUN_SUBMIT_OPTIONS(chosen.shown),
};

static bool is_word(const cJSON *item, const char *word)
{
    return cJSON_IsString(item) && strcmp(item->valuestring, word) == 0;
}

/* Whether the parent does nothing but wait to be entered (weft submit --interactive without a program). */
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
        json_put_text(body, "launch", "ranks"); /* that it sleeps once on each node is not meant for the program */
    return run_child_write_command(call, parent, body, error);
}

static weft_status runs_promote_run(struct command_call *call, struct error *error)
{
    static const struct run_child child = {
        .route = "promote", .options = &chosen.run, .shown = &chosen.shown, .write = promote_write};
    if (call->program_count == 0) {
        call->exit_code = EXIT_MISUSED;
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s needs a program: %s RUN -- PROGRAM [ARGUMENTS]", call->name,
                         call->name);
    }
    return run_child_make(call, &child, error);
}

const struct command command_promote = {
    .name = "promote",
    .group = COMMAND_PLATFORM,
    .summary = "make a planned run of an interactive one",
    .description = "What was tried by hand in an interactive run is run as planned: PROGRAM, with the environment and "
                   "resources of RUN, and its code as it is in its directory now, with all that was changed there. "
                   "Without --name it is called as RUN is, with -planned behind.",
    .examples = "weft submit -p vision --interactive\nweft promote 12 --time 12h -- weft train --steps 20000\n",
    .words = "RUN",
    .takes_program = true,
    COMMAND_OPTIONS(options),
    .run = runs_promote_run,
};
