/* SPDX-License-Identifier: Apache-2.0 */
/* `weft discard`: throw away what ended runs have left on disk. */
#include "cli/run_orders.h"

#include <inttypes.h>

static struct {
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each run"),
};

static void tell(int64_t run, const cJSON *reply, FILE *output)
{
    fprintf(output, "run %" PRId64 ": its folder, checkpoints and output are thrown away\n", run);
}

static weft_status run(struct command_call *call, struct error *error)
{
    return run_orders_give(call, "discard", chosen.json, tell, error);
}

const struct command command_discard = {
    .name = "discard",
    .group = COMMAND_PLATFORM,
    .summary = "throw away what ended runs have left on disk",
    .description = "What a run leaves is kept until it is discarded: its folder with all that it has written there, "
                   "its checkpoints "
                   "and what it has printed. What is known of it stays: what was asked for, its events, its metrics, "
                   "what it cost; "
                   "and its code, so that it can be forked. The policy can do the same some time after each run's "
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
