/* SPDX-License-Identifier: Apache-2.0 */
/* `weft stop`: end runs of the platform. */
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
    fprintf(output, "run %" PRId64 " is %s\n", run, field_text(reply, "state"));
}

static weft_status run(struct command_call *call, struct error *error)
{
    return run_orders_give(call, "stop", chosen.json, tell, error);
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
