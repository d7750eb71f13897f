/* SPDX-License-Identifier: Apache-2.0 */
/* `weft runs`: what was run with `weft run`, and how it ended. */
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/platform/client/list.h"

#include "base/format/json_put.h"
#include "platform/runs/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHOWN_NEWEST 20

static struct {
    int64_t last;
    const char *project;
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("last", 'l', "N", &chosen.last, NULL, 1, 1e9, "show the newest N runs",
                .default_text = "20; all with --json"),
    CLI_TEXT("project", 'p', "NAME", &chosen.project, NULL, "only runs of this project"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each run"),
};

static void runs_print_json(const struct run_record *record, FILE *out)
{
    JSON_PRINT(out, NULL, "id", record->id, "project", record->project, "state", run_record_state_name(record->state),
               "ranks", record->ranks, "hosts", record->hosts, "started", record->started, "ended", record->ended,
               "exit_code", record->exit_code, "command", record->command, "reason", record->reason);
}

static void runs_print_line(const struct run_record *record, FILE *out)
{
    char started[MOMENT_BYTES];
    int64_t end = record->ended ? record->ended : (int64_t)time(NULL);
    fprintf(out, "%-24s %-9s %5" PRId64 " %s %7" PRId64 "s  %s\n", record->id, run_record_state_name(record->state),
            record->ranks, moment_clock(record->started * 1000, started),
            record->state == RUN_RECORD_LOST ? 0 : end - record->started, record->command);
    if (*record->reason)
        fprintf(out, "%24s %s\n", "", record->reason);
}

/* The index of the oldest of the newest `wanted` records that match --project; 0 if there are no more. */
static size_t find_first(const char *directory, char (*ids)[RUN_ID_BYTES], size_t count, size_t wanted)
{
    if (!chosen.project)
        return count > wanted ? count - wanted : 0;
    size_t first = count;
    while (first > 0 && wanted > 0) {
        struct run_record record;
        if (run_record_load(directory, ids[--first], &record, NULL) == WEFT_OK &&
            strcmp(chosen.project, record.project) == 0)
            wanted--;
    }
    return first;
}

static weft_status runs_run(struct command_call *call, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    char(*ids)[RUN_ID_BYTES];
    size_t count, shown = 0;
    weft_status status = run_records_directory(directory, error);
    if (status == WEFT_OK)
        status = run_records_list(directory, &ids, &count, error);
    if (status != WEFT_OK)
        return status;
    const size_t wanted = chosen.last ? (size_t)chosen.last : chosen.json ? SIZE_MAX : SHOWN_NEWEST;
    const size_t first = find_first(directory, ids, count, wanted);
    for (size_t i = first; i < count; i++) {
        struct run_record record;
        struct error damaged = {0};
        if (run_record_load(directory, ids[i], &record, &damaged) != WEFT_OK) {
            fprintf(stderr, "weft: %s\n", damaged.text); /* one damaged record hides no other */
            continue;
        }
        if (chosen.project && strcmp(chosen.project, record.project) != 0)
            continue;
        if (!chosen.json && !shown++)
            fprintf(call->output, "%-24s %-9s %5s %-19s %8s  %s\n", "run", "state", "ranks", "started", "took",
                    "command");
        if (chosen.json)
            runs_print_json(&record, call->output);
        else
            runs_print_line(&record, call->output);
    }
    if (!chosen.json && !shown)
        fprintf(call->output, "no runs yet; start one with weft run\n");
    /* With --project, it is unknown how many of the older runs are the project's. */
    else if (!chosen.json && first > 0)
        platform_list_cut(call->output, chosen.project ? "runs" : "runs are recorded", "newest",
                          chosen.project ? -1 : (int64_t)count, (int64_t)shown, "--last N shows more");
    free(ids);
    return WEFT_OK;
}

const struct command command_runs = {
    .name = "runs",
    .group = COMMAND_TRAIN,
    .summary = "list the runs of weft run and how they ended",
    .examples = "weft runs\nweft runs --last 5 --json\n",
    COMMAND_OPTIONS(options),
    .run = runs_run,
};
