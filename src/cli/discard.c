/* SPDX-License-Identifier: Apache-2.0 */
/* `weft discard`: throw away what ended runs have left on disk. */
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

static weft_status discard(struct platform *platform, const char *word, FILE *output, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL;
    int64_t run;
    weft_status status = run_reference_find(platform, word, &run, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, run);
    platform_path_part(&path, "discard");
    status = platform_send(platform, "POST", &path, NULL, NULL, &reply, error);
    if (status != WEFT_OK)
        return platform_run_unknown(platform, run, error);
    if (chosen.json && cJSON_IsObject(reply))
        platform_print_json(reply, output);
    else if (!chosen.json)
        fprintf(output, "run %" PRId64 ": its folder, checkpoints and output are thrown away\n", run);
    cJSON_Delete(reply);
    return WEFT_OK;
}

static weft_status run(struct command_call *call, struct error *error)
{
    struct platform platform;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    /* One that cannot be discarded keeps no other from it; the last sentence is told by the caller. */
    for (size_t i = 0; i < call->word_count; i++) {
        struct error why = {0};
        if (discard(&platform, call->words[i], call->output, &why) == WEFT_OK)
            continue;
        if (error->status != WEFT_OK)
            fprintf(stderr, "weft: %s\n", error->text);
        *error = why;
    }
    platform_close(&platform);
    return error->status;
}

const struct command command_discard = {
    .name = "discard",
    .group = COMMAND_PLATFORM,
    .summary = "throw away what ended runs have left on disk",
    .description = "What a run leaves is kept until it is discarded: its folder with all that it has written there, "
                   "its checkpoints "
                   "and what it has printed. What is known of it stays: what was asked for, its events, its metrics, "
                   "what it cost; "
                   "and its code, so that it can be forked. The house rules can do the same some time after each run's "
                   "end (keep, of "
                   "weft serve --policy). There is no way back. RUN is a number, or a name, where only one run has it.",
    .examples = "weft discard 12\nweft discard 12 13 baseline\n",
    .words = "RUN ...",
    .least_words = 1,
    .most_words = 1000,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
