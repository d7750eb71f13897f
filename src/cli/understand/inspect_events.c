/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/understand/inspect_events.h"

#include "base/text.h"
#include "cli/frame/table.h"
#include "launch/job_directory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENTS_MOST (64u << 20) /* bytes of the file */
#define TEXT_BYTES  4096

/* What the events add up to. */
struct events_summary {
    double began, last; /* seconds since 1970 */
    int64_t lost, gave_up, joined, left, scalings, recoveries, checkpoints, ranks;
    double recovering;
    const cJSON *training; /* the last end of a training; NULL: none */
    const cJSON *end;      /* NULL: the job runs, or its launcher was killed */
};

/* ---- members of an event ---- */

static double event_number(const cJSON *event, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(event, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *event_string(const cJSON *event, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(event, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static bool event_is(const cJSON *event, const char *name)
{
    return strcmp(event_string(event, "event"), name) == 0;
}

/* ---- one event in words ---- */

static void describe_job_start(const cJSON *event, char *text)
{
    const cJSON *host, *word;
    size_t used = (size_t)snprintf(text, TEXT_BYTES, "%.0f ranks on", event_number(event, "ranks"));
    cJSON_ArrayForEach(host, cJSON_GetObjectItemCaseSensitive(event, "hosts"))
        if (used < TEXT_BYTES)
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, " %s:%.0f", event_string(host, "host"),
                                     event_number(host, "ranks"));
    if (used < TEXT_BYTES)
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, ":");
    cJSON_ArrayForEach(word, cJSON_GetObjectItemCaseSensitive(event, "command"))
        if (used < TEXT_BYTES && cJSON_IsString(word))
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, " %s", word->valuestring);
}

static void describe_recovery(const cJSON *event, char *text)
{
    char cost[32];
    const double seconds = event_number(event, "agree_seconds") + event_number(event, "rebuild_seconds") +
                           event_number(event, "restore_seconds");
    const double back = event_number(event, "step_before") - event_number(event, "step");
    size_t used =
        (size_t)snprintf(text, TEXT_BYTES, "%.0f ranks in place of %.0f after step %.0f, state from %s, %s",
                         event_number(event, "ranks"), event_number(event, "ranks_before"), event_number(event, "step"),
                         event_string(event, "source"), text_seconds(seconds, cost, sizeof cost));
    if (back > 0 && used < TEXT_BYTES)
        snprintf(text + used, TEXT_BYTES - used, "; repeats %.0f step%s", back, back > 1 ? "s" : "");
}

static void describe_training_end(const cJSON *event, char *text)
{
    snprintf(text, TEXT_BYTES, "%s after step %.0f; goodput %.1f %%, recoveries %.2f s, repeated steps %.2f s",
             event_string(event, "ending"), event_number(event, "step"), 100 * event_number(event, "goodput"),
             event_number(event, "recovery_seconds"), event_number(event, "repeated_seconds"));
}

static void describe_event(const cJSON *event, char *text)
{
    const char *reason = event_string(event, "reason"), *problem = event_string(event, "problem");
    const cJSON *replaces = cJSON_GetObjectItemCaseSensitive(event, "replaces");
    char seconds[32];
    text[0] = '\0';
    if (event_is(event, "job_start"))
        describe_job_start(event, text);
    else if (event_is(event, "rank_start") && cJSON_IsNumber(replaces))
        snprintf(text, TEXT_BYTES, "in place of rank %.0f", replaces->valuedouble);
    else if (event_is(event, "rank_joined"))
        snprintf(text, TEXT_BYTES, "%s after its start; %.0f ranks",
                 text_seconds(event_number(event, "seconds"), seconds, sizeof seconds), event_number(event, "ranks"));
    else if (event_is(event, "scale"))
        snprintf(text, TEXT_BYTES, "from %.0f to %.0f ranks", event_number(event, "ranks_before"),
                 event_number(event, "ranks"));
    else if (event_is(event, "host_added") && event_number(event, "slots") > 0)
        snprintf(text, TEXT_BYTES, "%.0f slots", event_number(event, "slots"));
    else if (event_is(event, "start"))
        snprintf(text, TEXT_BYTES, "%s on %.0f ranks, from step %.0f to %.0f", event_string(event, "run"),
                 event_number(event, "ranks"), event_number(event, "step"), event_number(event, "steps"));
    else if (event_is(event, "recovery"))
        describe_recovery(event, text);
    else if (event_is(event, "straggler"))
        snprintf(text, TEXT_BYTES, "%s after step %.0f: %.2f times as long as its peers, over %.0f steps",
                 event_string(event, "state"), event_number(event, "step"), event_number(event, "factor"),
                 event_number(event, "steps"));
    else if (event_is(event, "checkpoint"))
        snprintf(text, TEXT_BYTES, "step %.0f, %s, training paused for %.2f s", event_number(event, "step"),
                 event_string(event, "path"), event_number(event, "pause_seconds"));
    else if (event_is(event, "copy"))
        snprintf(text, TEXT_BYTES, "step %.0f, %s%s%s", event_number(event, "step"), event_string(event, "path"),
                 *problem ? ": " : ", verified", problem);
    else if (event_is(event, "end"))
        describe_training_end(event, text);
    else if (event_is(event, "launcher_attach"))
        snprintf(text, TEXT_BYTES, "process %.0f takes the job over", event_number(event, "process"));
    else if (event_is(event, "job_end") || event_is(event, "host_end"))
        snprintf(text, TEXT_BYTES, "exit code %.0f%s%s", event_number(event, "exit_code"), *reason ? ": " : "", reason);
    else
        snprintf(text, TEXT_BYTES, "%s", reason);
}

/* ---- the table ---- */

static void summarize_event(const cJSON *event, struct events_summary *summary)
{
    summary->last = event_number(event, "time");
    summary->lost += event_is(event, "rank_lost");
    summary->gave_up += event_is(event, "rank_gave_up");
    summary->joined += event_is(event, "rank_joined");
    summary->left += event_is(event, "rank_left");
    summary->scalings += event_is(event, "scale");
    summary->checkpoints += event_is(event, "checkpoint");
    if (event_is(event, "recovery")) {
        summary->recoveries++;
        summary->recovering += event_number(event, "agree_seconds") + event_number(event, "rebuild_seconds") +
                               event_number(event, "restore_seconds");
    }
    if (event_is(event, "job_start") || event_is(event, "recovery") || event_is(event, "rank_joined") ||
        event_is(event, "rank_lost") || event_is(event, "rank_left"))
        summary->ranks = (int64_t)event_number(event, "ranks");
    if (event_is(event, "end"))
        summary->training = event;
    if (event_is(event, "job_end"))
        summary->end = event;
}

static void put_event(struct table *table, const cJSON *event, double began)
{
    char text[TEXT_BYTES], clock[16];
    const double time_of = event_number(event, "time");
    const time_t whole = (time_t)time_of;
    struct tm utc;
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(event, "rank");
    strftime(clock, sizeof clock, "%H:%M:%S", gmtime_r(&whole, &utc));
    describe_event(event, text);
    table_put(table, "%s", clock);
    table_put(table, "%.1f", time_of - began);
    table_put(table, "%s", event_string(event, "event"));
    if (cJSON_IsNumber(rank))
        table_put(table, "%.0f", rank->valuedouble);
    else
        table_put(table, "%s", "");
    table_put(table, "%s", event_string(event, "host"));
    table_put(table, "%s", text);
}

static void print_summary(const struct events_summary *summary, FILE *output)
{
    fprintf(output, "\n%s after %.1f s", summary->end ? "ended" : "has not ended; the last event was",
            summary->last - summary->began);
    if (summary->end)
        fprintf(output, " with exit code %.0f", event_number(summary->end, "exit_code"));
    else
        fprintf(output, ", with %" PRId64 " rank%s", summary->ranks, summary->ranks == 1 ? "" : "s");
    fprintf(output,
            "; ranks: %" PRId64 " lost, %" PRId64 " joined, %" PRId64 " gave up, %" PRId64 " left; %" PRId64
            " request%s to scale; %" PRId64 " change%s of the ranks took training %.2f s",
            summary->lost, summary->joined, summary->gave_up, summary->left, summary->scalings,
            summary->scalings == 1 ? "" : "s", summary->recoveries, summary->recoveries == 1 ? "" : "s",
            summary->recovering);
    if (summary->training)
        fprintf(output, "; goodput %.1f %%", 100 * event_number(summary->training, "goodput"));
    fputc('\n', output);
}

static weft_status print_event_table(const cJSON *events, FILE *output, struct error *error)
{
    static const struct table_column columns[] = {{.title = "UTC"},   {.title = "seconds", .right = true},
                                                  {.title = "event"}, {.title = "rank", .right = true},
                                                  {.title = "host"},  {.title = "what", .wraps = true}};
    struct events_summary summary = {0};
    struct table table;
    const cJSON *event;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    summary.began = event_number(events->child, "time");
    cJSON_ArrayForEach(event, events) {
        put_event(&table, event, summary.began);
        summarize_event(event, &summary);
    }
    const weft_status status = table_print(&table, output, error);
    table_end(&table);
    if (status == WEFT_OK)
        print_summary(&summary, output);
    return status;
}

/* ---- the file ---- */

/* The events of the last job, from its start. */
static weft_status collect_events(char *content, cJSON *events, struct error *error)
{
    char *rest = NULL;
    for (char *line = strtok_r(content, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        cJSON *event = NULL;
        if (json_parse(line, strlen(line), JOB_DIRECTORY_EVENTS, &event, NULL) != WEFT_OK)
            continue;
        while (event_is(event, "job_start") && cJSON_GetArraySize(events) > 0)
            cJSON_DeleteItemFromArray(events, 0);
        if (!cJSON_AddItemToArray(events, event))
            return error_memory(error, strlen(line), "the events of a job");
    }
    return WEFT_OK;
}

static weft_status print_event_lines(const cJSON *events, FILE *output, struct error *error)
{
    const cJSON *event;
    weft_status status = WEFT_OK;
    cJSON_ArrayForEach(event, events) {
        struct json_writer line;
        json_begin(&line, JSON_LINE);
        json_put_tree(&line, NULL, event);
        const weft_status printed = json_complete(&line, output, error);
        status = status == WEFT_OK ? printed : status;
    }
    return status;
}

weft_status inspect_events_print(const char *directory, bool as_json, FILE *output, struct error *error)
{
    char path[FILE_PATH_BYTES], *content = NULL;
    size_t size = 0;
    cJSON *events = NULL;
    weft_status status = file_join(path, directory, JOB_DIRECTORY_EVENTS, error);
    if (status == WEFT_OK)
        status = file_read(path, EVENTS_MOST, &content, &size, error);
    if (status == WEFT_OK && !(events = cJSON_CreateArray()))
        status = error_memory(error, size, "the events of a job");
    if (status == WEFT_OK)
        status = collect_events(content, events, error);
    if (status == WEFT_OK && cJSON_GetArraySize(events) == 0)
        status = error_set(error, WEFT_ERROR_DATA, "%s has no events yet", path);
    if (status == WEFT_OK)
        status = as_json ? print_event_lines(events, output, error) : print_event_table(events, output, error);
    cJSON_Delete(events);
    free(content);
    return status;
}
