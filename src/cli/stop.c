/* SPDX-License-Identifier: Apache-2.0 */
/* `weft stop`: end runs of the platform. */
#include "cli/command.h"
#include "cli/platform_client.h"
#include "cli/run_reference.h"

#include <inttypes.h>

static struct {
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each run"),
};

static weft_status stop(struct platform *platform, const char *word, FILE *output, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL;
    int64_t run;
    weft_status status = run_reference_find(platform, word, &run, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, run);
    platform_path_part(&path, "stop");
    status = platform_send(platform, "POST", &path, NULL, NULL, &reply, error);
    if (status != WEFT_OK)
        return platform_run_unknown(platform, run, error);
    if (chosen.json && cJSON_IsObject(reply))
        platform_print_json(reply, output);
    else if (!chosen.json)
        fprintf(output, "run %" PRId64 " is %s\n", run, field_text(reply, "state"));
    cJSON_Delete(reply);
    return WEFT_OK;
}

static weft_status run(struct command_call *call, struct error *error)
{
    struct platform platform;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    /* One that cannot be stopped keeps no other from it; the last sentence is told by the caller. */
    for (size_t i = 0; i < call->word_count; i++) {
        struct error why = {0};
        if (stop(&platform, call->words[i], call->output, &why) == WEFT_OK)
            continue;
        if (error->status != WEFT_OK)
            fprintf(stderr, "weft: %s\n", error->text);
        *error = why;
    }
    platform_close(&platform);
    return error->status;
}

const struct command command_stop = {
    .name = "stop",
    .group = COMMAND_PLATFORM,
    .summary = "end runs, for good",
    .description =
        "A run that waits leaves the queue at once. One that runs is asked to end (SIGTERM), so that it may write a "
        "checkpoint, and is killed when its grace period is over. RUN is a number, or a name, where only one run that "
        "is not over has it. "
        "weft resume goes on from the checkpoint as a new run.",
    .examples = "weft stop 12\nweft stop 12 13 baseline\n",
    .words = "RUN ...",
    .least_words = 1,
    .most_words = 1000,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
