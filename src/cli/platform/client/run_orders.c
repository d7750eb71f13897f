/* SPDX-License-Identifier: Apache-2.0 */
/* `weft stop` and `weft discard`: one order to each RUN on the command line. */
#include "cli/frame/command.h"
#include "cli/platform/client/client.h"
#include "cli/platform/client/run_reference.h"

#include <inttypes.h>

static struct {
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each run"),
};

static weft_status run_order_give(struct platform *platform, const char *word, const char *order, int64_t *run,
                                  cJSON **reply, struct error *error)
{
    struct platform_path path;
    weft_status status = run_reference_find(platform, word, run, error);
    if (status != WEFT_OK)
        return status;
    platform_path_run(&path, *run, order);
    status = platform_send(platform, "POST", &path, NULL, NULL, reply, error);
    return status == WEFT_OK ? WEFT_OK : platform_run_unknown(platform, *run, error);
}

/* Print the result of an order in a line: `reply` is the server's. */
typedef void run_order_tell(int64_t run, const cJSON *reply, FILE *output);

/* POST /runs/N/`order` for each word of the call. Each reply goes to `tell`, or is printed as a line of JSON. A refusal
 * does not stop the orders after it: the last refusal is the error, those before it go to standard error. */
static weft_status run_orders_give(const struct command_call *call, const char *order, run_order_tell *tell,
                                   struct error *error)
{
    struct platform platform;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < call->word_count; i++) {
        struct error why = {0};
        cJSON *reply = NULL;
        int64_t run;
        if (run_order_give(&platform, call->words[i], order, &run, &reply, &why) != WEFT_OK) {
            if (error->status != WEFT_OK)
                fprintf(stderr, "weft: %s\n", error->text);
            *error = why;
        } else if (!chosen.json) {
            tell(run, reply, call->output);
        } else if (cJSON_IsObject(reply)) {
            platform_print_json(reply, call->output);
        }
        cJSON_Delete(reply);
    }
    platform_close(&platform);
    return error->status;
}

static void stop_tell(int64_t run, const cJSON *reply, FILE *output)
{
    fprintf(output, "run %" PRId64 " is %s\n", run, field_text(reply, "state"));
}

static weft_status stop_run(struct command_call *call, struct error *error)
{
    return run_orders_give(call, "stop", stop_tell, error);
}

const struct command command_stop = {
    .name = "stop",
    .group = COMMAND_PLATFORM,
    .summary = "end runs, for good",
    .description =
        "A run that waits leaves the queue at once. One that runs is asked to end (SIGTERM), so that it may write a "
        "checkpoint, and is killed when its grace period is over. RUN is a number, or a name, where only one run that "
        "is not over has it. weft resume goes on from the checkpoint as a new run.",
    .examples = "weft stop 12\nweft stop 12 13 baseline\n",
    .words = "RUN ...",
    .most_words = 1000,
    COMMAND_OPTIONS(options),
    .run = stop_run,
};

static void discard_tell(int64_t run, const cJSON *reply, FILE *output)
{
    fprintf(output, "run %" PRId64 ": its directory, checkpoints and output are thrown away\n", run);
}

static weft_status discard_run(struct command_call *call, struct error *error)
{
    return run_orders_give(call, "discard", discard_tell, error);
}

const struct command command_discard = {
    .name = "discard",
    .group = COMMAND_PLATFORM,
    .summary = "throw away what ended runs have left on disk",
    .description =
        "What a run leaves is kept until it is discarded: its directory with all that it has written there, its "
        "checkpoints and what it has printed. What is known of it stays: what was asked for, its events, its metrics, "
        "what it cost; and its code, so that it can be forked. The policy can do the same some time after each run's "
        "end (keep, of weft serve --policy). There is no way back. RUN is a number, or a name, where only one run has "
        "it.",
    .examples = "weft discard 12\nweft discard 12 13 baseline\n",
    .words = "RUN ...",
    .most_words = 1000,
    COMMAND_OPTIONS(options),
    .run = discard_run,
};
