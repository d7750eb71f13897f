/* SPDX-License-Identifier: Apache-2.0 */
/* `weft queue`: the plan of the scheduler. */
#include "cli/command.h"
#include "cli/moments.h"
#include "cli/platform_client.h"
#include "cli/run_print.h"
#include "cli/table.h"

#include <inttypes.h>

static struct {
    bool running, resume, json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("running", 'r', &chosen.running, "what runs too, and by when it is over"),
    CLI_FLAG("resume", 0, &chosen.resume,
             "start runs again, after the server paused scheduling because it ended uncleanly (administrators)"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each run; those that wait have a \"place\""),
};

static const struct table_column waiting_columns[] = {{.title = "place", .right = true},
                                                      {.title = "run", .right = true},
                                                      {.title = "project", .least = 7},
                                                      {.title = "owner", .least = 5},
                                                      {.title = "slots", .right = true},
                                                      {.title = "waits"},
                                                      {.title = "expected"},
                                                      {.title = "why", .least = 20, .wraps = true}};

static const struct table_column running_columns[] = {{.title = "run", .right = true},
                                                      {.title = "project", .least = 7},
                                                      {.title = "owner", .least = 5},
                                                      {.title = "slots", .right = true},
                                                      {.title = "started"},
                                                      {.title = "over by"}};

/* The number, or that it is not to be told: runs of projects that one may not see have neither number nor names. */
static void put_run(struct table *table, const cJSON *run)
{
    char size[48];
    bool seen = field_present(run, "run");
    if (seen)
        table_put(table, "%" PRId64, field_integer(run, "run"));
    else
        table_put(table, "-");
    table_put(table, "%s", seen ? field_text(run, "project") : "(hidden)");
    table_put(table, "%s", field_text(run, "owner"));
    table_put(table, "%s", run_size_text(field_integer(run, "nodes"), field_integer(run, "slots"), size, sizeof size));
}

static void put_ago(struct table *table, const cJSON *run, const char *key, int64_t now)
{
    char text[MOMENT_BYTES];
    table_put(table, "%s", field_present(run, key) ? moment_ago(field_integer(run, key), now, text) : "");
}

static weft_status print_waiting(const cJSON *queue, int64_t now, FILE *output, struct error *error)
{
    struct table table;
    const cJSON *run;
    table_begin(&table, waiting_columns, sizeof waiting_columns / sizeof *waiting_columns);
    cJSON_ArrayForEach(run, queue)
    {
        char span[MOMENT_BYTES], reason[2048];
        table_put(&table, "%" PRId64, field_integer(run, "place"));
        put_run(&table, run);
        table_put(&table, "%s",
                  field_present(run, "since") ? moment_span(now - field_integer(run, "since"), span) : "");
        put_ago(&table, run, "expected_start", now);
        snprintf(reason, sizeof reason, "%s", field_text(run, "reason"));
        table_put(&table, "%s", field_present(run, "expected_start") ? run_reason_alone(reason) : reason);
    }
    weft_status status = table_print(&table, output, error);
    table_end(&table);
    return status;
}

static weft_status print_running(const cJSON *running, int64_t now, FILE *output, struct error *error)
{
    struct table table;
    const cJSON *run;
    table_begin(&table, running_columns, sizeof running_columns / sizeof *running_columns);
    cJSON_ArrayForEach(run, running)
    {
        put_run(&table, run);
        put_ago(&table, run, "since", now);
        put_ago(&table, run, "ends_before", now);
    }
    weft_status status = table_print(&table, output, error);
    table_end(&table);
    return status;
}

static int64_t slots_of(const cJSON *runs)
{
    int64_t slots = 0;
    const cJSON *run;
    cJSON_ArrayForEach(run, runs)
    {
        slots += field_present(run, "size") ? field_integer(run, "size")
                                            : field_integer(run, "nodes") * field_integer(run, "slots");
    }
    return slots;
}

static weft_status print(const cJSON *queue, const cJSON *running, FILE *output, struct error *error)
{
    int64_t now = moment_now();
    int waiting = cJSON_GetArraySize(queue), run = cJSON_GetArraySize(running);
    weft_status status = WEFT_OK;
    if (waiting > 0)
        status = print_waiting(queue, now, output, error);
    if (status == WEFT_OK && chosen.running && run > 0) {
        fputs(waiting > 0 ? "\n" : "", output);
        status = print_running(running, now, output, error);
    }
    if (waiting > 0 || (chosen.running && run > 0))
        fputc('\n', output);
    if (waiting == 0)
        fprintf(output, "nothing waits");
    else
        fprintf(output, "%d run%s for %" PRId64 " slot%s", waiting, waiting == 1 ? " waits" : "s wait", slots_of(queue),
                slots_of(queue) == 1 ? "" : "s");
    if (run == 0)
        fprintf(output, "%s nothing runs\n", waiting ? "," : " and");
    else
        fprintf(output, "; %d run%s on %" PRId64 " slot%s\n", run, run == 1 ? "s" : "", slots_of(running),
                slots_of(running) == 1 ? "" : "s");
    return status;
}

/* Start runs again. */
static weft_status resume(struct platform *platform, FILE *output, struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "queue");
    platform_path_part(&path, "resume");
    weft_status status = platform_send(platform, "POST", &path, NULL, NULL, NULL, error);
    if (status == WEFT_OK)
        fprintf(output, "scheduling goes on\n");
    return status;
}

static weft_status run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    cJSON *reply = NULL;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.resume) {
        status = resume(&platform, call->output, error);
        platform_close(&platform);
        return status;
    }
    platform_path_begin(&path, "queue");
    status = platform_get(&platform, &path, &reply, error);
    if (status == WEFT_OK && chosen.json) {
        const cJSON *item;
        cJSON_ArrayForEach(item, field(reply, "queue")) platform_print_json(item, call->output);
        if (chosen.running)
            cJSON_ArrayForEach(item, field(reply, "running")) platform_print_json(item, call->output);
    } else if (status == WEFT_OK) {
        platform_print_paused(reply);
        status = print(field(reply, "queue"), field(reply, "running"), call->output, error);
    }
    cJSON_Delete(reply);
    platform_close(&platform);
    return status;
}

const struct command command_queue = {
    .name = "queue",
    .group = COMMAND_PLATFORM,
    .summary = "show the plan: who waits, in which order, for what, until when",
    .description =
        "Lists the runs that wait in the order in which the scheduler means to start them. That order changes as runs "
        "end, come and grow old; an expected start is the scheduler's best knowledge, not a promise. Runs of projects "
        "that you may not see keep their place and size, and are nameless.\n\n"
        "After two unclean exits within 60 seconds, the server starts with scheduling paused: runs are accepted and "
        "wait, running runs go on, and nothing starts until an administrator runs 'weft queue --resume'.",
    .examples = "weft queue\nweft queue --running\nweft queue --resume\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
