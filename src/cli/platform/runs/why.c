/* SPDX-License-Identifier: Apache-2.0 */
/* `weft why`: why a run is in the state it is in. */
#include "base/text.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/cells.h"
#include "cli/platform/client/list.h"
#include "cli/platform/client/run_print.h"
#include "cli/platform/client/run_reference.h"

#include <inttypes.h>
#include <string.h>

static struct {
    bool events, json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("events", 'e', &chosen.events, "also every change of its state, with its cause"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON; with --events one more for each event"),
};

static const struct table_column columns[] = {
    {.title = "time", .cell = "{time:clock}"}, {.title = "attempt", .right = true, .cell = "{epoch:nonzero}"},
    {.title = "state", .cell = "{to}"},        {.title = "by", .least = 5, .cell = "{actor}"},
    {.title = "cause", .cell = "{cause}"},     {.title = "detail", .least = 12, .wraps = true, .cell = "{detail}"},
};

static weft_status why_print_events(struct platform *platform, int64_t run, FILE *output, struct error *error)
{
    static const struct platform_list events = {"events", "after", "event", 1000, 1};
    struct platform_path path;
    struct platform_listed listed = {0};
    platform_path_run(&path, run, "events");
    if (chosen.json)
        return platform_list_print(platform, &path, &events, 0, output, error);
    weft_status status = platform_list_get(platform, &path, &events, 0, &listed, error);
    if (status == WEFT_OK) {
        fputc('\n', output);
        status = cells_print_table(columns, ARRAY_SIZE(columns), listed.items, NULL, output, error);
    }
    platform_listed_free(&listed);
    return status;
}

static void print_why(int64_t run, const cJSON *why, FILE *output)
{
    char message[2048], report[512] = "", expected[MOMENT_BYTES], clock[MOMENT_BYTES];
    const char *state = field_text(why, "state");
    const char *verb = strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ? "has" : "is";
    const int64_t now = moment_now(), start = field_integer(why, "expected_start");
    snprintf(message, sizeof message, "%s", field_text(why, "why"));
    if (field_present(why, "expected_start")) {
        const char *clause = strstr(message, RUN_REASON_EXPECTED), *by = clause ? strstr(clause, ": ") : NULL;
        snprintf(report, sizeof report, "%s", by ? by : "");
        run_reason_alone(message);
    }
    int column = fprintf(output, "run %" PRId64 " %s %s%s", run, verb, state, *message ? ":" : "");
    wrap_print(output, text_printable(message), column, 2);
    if (field_present(why, "expected_start") && start > now)
        fprintf(output, "  expected to start %s, at %s%s\n", moment_ago(start, now, expected),
                moment_clock(start, clock), text_printable(report));
    else if (field_present(why, "expected_start"))
        fprintf(output, "  expected to start soon\n");
}

static weft_status why_tell(struct platform *platform, const char *word, FILE *output, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL;
    int64_t run;
    weft_status status = run_reference_find(platform, word, &run, error);
    if (status != WEFT_OK)
        return status;
    platform_path_run(&path, run, "why");
    status = platform_get(platform, &path, &reply, error);
    if (status == WEFT_OK && chosen.json)
        platform_print_json(reply, output);
    else if (status == WEFT_OK)
        print_why(run, reply, output);
    cJSON_Delete(reply);
    if (status != WEFT_OK)
        return platform_run_unknown(platform, run, error);
    return chosen.events ? why_print_events(platform, run, output, error) : WEFT_OK;
}

static weft_status why_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = why_tell(&platform, call->words[0], call->output, error);
    platform_close(&platform);
    return status;
}

const struct command command_why = {
    .name = "why",
    .group = COMMAND_PLATFORM,
    .summary = "explain why a run waits and when it is expected to start, or why it ended",
    .examples = "weft why 12\nweft why baseline --events\n",
    .description = "With --events, lists each change of the run's state with its cause, and who caused it.",
    .words = "RUN",
    COMMAND_OPTIONS(options),
    .run = why_run,
};
