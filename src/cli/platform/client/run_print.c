/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/run_print.h"

#include "base/text.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/client.h"
#include "platform/registry/run/progress.h"
#include "platform/registry/run/state.h"

#include <inttypes.h>
#include <string.h>

#define LABEL_COLUMNS 13   /* where values begin */
#define STALE_SECONDS 60.0 /* an older report of progress is shown with its age */

char *run_size_text(int64_t nodes, int64_t slots, char *buffer, size_t size)
{
    if (nodes > 1)
        snprintf(buffer, size, "%" PRId64 " x %" PRId64, nodes, slots);
    else
        snprintf(buffer, size, "%" PRId64, slots);
    return buffer;
}

/* How long a run has run, all attempts together; "" before it has. */
static char *run_print_ran_text(const cJSON *run, int64_t now, char buffer[MOMENT_BYTES])
{
    const char *state = field_text(run, "state");
    int64_t ran = field_integer(run, "served_ms"); /* of attempts that have ended; the current one is added */
    if (field_present(run, "started") && (strcmp(state, "running") == 0 || strcmp(state, "stopping") == 0) &&
        now > field_integer(run, "started"))
        ran += now - field_integer(run, "started");
    *buffer = '\0';
    return ran > 0 ? moment_span(ran, buffer) : buffer;
}

#define PROGRESS_BYTES 96

/* "37 %, 3m45s left", "37 %, as of 5 min ago"; "" if the run has reported nothing. */
static char *progress_text(const cJSON *run, int64_t now, char text[PROGRESS_BYTES])
{
    const cJSON *progress = field(run, "progress");
    const int64_t reported = field_integer(progress, "reported_at");
    const double total = field_number(progress, "total"), age = (double)(now - reported) / 1000;
    char span[32];
    *text = '\0';
    if (!field_present(run, "progress") || !(total > 0))
        return text;
    int length = snprintf(text, PROGRESS_BYTES, "%d %%", run_progress_percent(field_number(progress, "done"), total));
    if (strcmp(field_text(run, "state"), "running") != 0)
        return text;
    if (age >= STALE_SECONDS)
        length += snprintf(text + length, PROGRESS_BYTES - (size_t)length, " as of %s ago",
                           text_seconds(age, span, sizeof span));
    const double left = field_number(progress, "seconds_left") - age;
    if (field_present(progress, "seconds_left") && left >= 0)
        snprintf(text + length, PROGRESS_BYTES - (size_t)length, ", %s left", text_time_left(left, span, sizeof span));
    return text;
}

/* ---- a table ---- */

static const struct table_column columns[] = {{.title = "run", .right = true},
                                              {.title = "name", .least = 8},
                                              {.title = "project", .least = 7},
                                              {.title = "owner", .least = 5},
                                              {.title = "state"},
                                              {.title = "slots", .right = true},
                                              {.title = "submitted"},
                                              {.title = "ran", .right = true},
                                              {.title = "progress"},
                                              {.title = "why", .least = 12}};
#define OWNER_COLUMN    3
#define PROGRESS_COLUMN 8

/* The reason of a run's state: the scheduler's if it waits. */
static const char *run_print_reason_of(const cJSON *run, const cJSON *queue)
{
    const cJSON *waiting;
    cJSON_ArrayForEach(waiting, queue)
        if (field_integer(waiting, "run") == field_integer(run, "run") && *field_text(waiting, "reason"))
            return field_text(waiting, "reason");
    return field_text(run, "reason");
}

static void run_print_put_run(struct table *table, const cJSON *run, const struct run_table *made)
{
    char size[48], ago[MOMENT_BYTES], ran[MOMENT_BYTES], progress[PROGRESS_BYTES];
    table_put(table, "%" PRId64, field_integer(run, "run"));
    table_put(table, "%s", field_text(run, "name"));
    table_put(table, "%s", field_text(run, "project"));
    table_put(table, "%s", field_text(run, "owner"));
    table_put(table, "%s", field_text(run, "state"));
    table_put(table, "%s", run_size_text(field_integer(run, "nodes"), field_integer(run, "slots"), size, sizeof size));
    table_put(table, "%s", moment_ago(field_integer(run, "submitted"), made->now, ago));
    table_put(table, "%s", run_print_ran_text(run, made->now, ran));
    table_put(table, "%s", progress_text(run, made->now, progress));
    table_put(table, "%s", run_print_reason_of(run, made->queue));
}

weft_status run_print_table(const cJSON *const *runs, size_t count, const struct run_table *made, FILE *output,
                            struct error *error)
{
    struct table table;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    table.hidden[OWNER_COLUMN] = !made->owners;
    table.hidden[PROGRESS_COLUMN] = true;
    for (size_t i = 0; i < count; i++) {
        run_print_put_run(&table, runs[i], made);
        table.hidden[PROGRESS_COLUMN] = table.hidden[PROGRESS_COLUMN] && !field_present(runs[i], "progress");
    }
    weft_status status = table_print(&table, output, error);
    table_end(&table);
    return status;
}

/* ---- one in full ---- */

static void print_value(FILE *output, const char *label, const char *value)
{
    char text[4096];
    if (!*value)
        return;
    snprintf(text, sizeof text, "%s", value);
    int column = fprintf(output, "%-*s", LABEL_COLUMNS, label);
    wrap_print(output, text_printable(text), column, LABEL_COLUMNS);
}

static void print_command(const cJSON *command, FILE *output)
{
    char text[4096] = "";
    const cJSON *word;
    cJSON_ArrayForEach(word, command) {
        size_t length = strlen(text);
        bool plain = cJSON_IsString(word) && *word->valuestring && !strpbrk(word->valuestring, " \t\n'\"\\$*?;&|<>()");
        snprintf(text + length, sizeof text - length, plain ? "%s%s" : "%s'%s'", length ? " " : "",
                 cJSON_IsString(word) ? word->valuestring : "");
    }
    print_value(output, "command", text);
}

static void run_print_environment(const cJSON *environment, FILE *output)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, environment) {
        char text[4096];
        snprintf(text, sizeof text, "%s=%s", item->string, cJSON_IsString(item) ? item->valuestring : "");
        print_value(output, item == environment->child ? "environment" : "", text);
    }
}

static void run_print_moment(FILE *output, const char *label, const cJSON *run, const char *key, int64_t now)
{
    char clock[MOMENT_BYTES], ago[MOMENT_BYTES], text[2 * MOMENT_BYTES + 8];
    if (!field_present(run, key))
        return;
    snprintf(text, sizeof text, "%s (%s)", moment_clock(field_integer(run, key), clock),
             moment_ago(field_integer(run, key), now, ago));
    print_value(output, label, text);
}

static const char *slot_kind_text(const cJSON *run)
{
    bool one = field_integer(run, "size") == 1;
    return strcmp(field_text(run, "slot_kind"), "gpu") == 0 ? (one ? "GPU" : "GPUs") : (one ? "CPU slot" : "CPU slots");
}

static const char *launch_text(const char *launch)
{
    return strcmp(launch, "ranks") == 0   ? "ranks, one on each slot"
           : strcmp(launch, "nodes") == 0 ? "one process on each node"
           : strcmp(launch, "first") == 0 ? "one process, on the first node"
                                          : launch;
}

/* What each node needs besides its slots. */
static void print_shares(const cJSON *asked, FILE *output)
{
    char text[128] = "", bytes[48];
    const int64_t processors = field_integer(asked, "processors"), memory = field_integer(asked, "memory");
    if (processors > 0)
        snprintf(text, sizeof text, "%" PRId64 " processor%s%s", processors, processors == 1 ? "" : "s",
                 memory > 0 ? " and " : " on each node");
    if (memory > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s of memory on each node",
                 text_bytes((uint64_t)memory, bytes, sizeof bytes));
    print_value(output, "with", text);
}

static void print_asked(const cJSON *run, FILE *output)
{
    const cJSON *asked = field(run, "specification"), *secrets = field(asked, "secrets"), *secret;
    char size[48], least[48] = "", text[256], span[MOMENT_BYTES], slice[MOMENT_BYTES];
    run_size_text(field_integer(run, "nodes"), field_integer(run, "slots"), size, sizeof size);
    if (field_integer(asked, "min_nodes") > 0)
        snprintf(least, sizeof least, ", goes on with %" PRId64 " node%s", field_integer(asked, "min_nodes"),
                 field_integer(asked, "min_nodes") == 1 ? "" : "s");
    snprintf(
        text, sizeof text, "%s %s%s%s%s%s%s", size, slot_kind_text(run), least,
        field_true(run, "preemptible") ? ", preemptible" : "", field_true(run, "interactive") ? ", interactive" : "",
        field_true(run, "may_span_pods") ? ", may span Pods" : "", field_number(run, "retries") > 0 ? ", retried" : "");
    print_value(output, "asked for", text);
    print_shares(asked, output);
    snprintf(text, sizeof text, "%s", moment_span(field_integer(run, "time_limit") * 1000, span));
    if (field_number(run, "time_slice") > 0)
        snprintf(text, sizeof text, "%s, in slices of %s", span,
                 moment_span(field_integer(run, "time_slice") * 1000, slice));
    print_value(output, "time limit", text);
    print_command(field(asked, "command"), output);
    print_value(output, "started as", launch_text(field_text(asked, "launch")));
    run_print_environment(field(asked, "environment"), output);
    cJSON_ArrayForEach(secret, secrets) /* only names: the server hands out no values */
        print_value(output, secret == secrets->child ? "secrets" : "", cJSON_GetStringValue(secret));
    print_value(output, "checkpoint", field_text(asked, "checkpoint"));
    if (field_number(asked, "parent") > 0) {
        snprintf(text, sizeof text, "run %" PRId64, field_integer(asked, "parent"));
        print_value(output, "made from", text);
    }
    print_value(output, "snapshot", field_text(asked, "snapshot"));
    snprintf(text, sizeof text, "%s%s", field_text(asked, "commit"),
             field_true(asked, "commit_changed") ? ", changed since" : "");
    print_value(output, "commit", text);
}

static const struct table_column node_columns[] = {{.title = "attempt", .right = true},
                                                   {.title = "node", .right = true},
                                                   {.title = "host", .least = 8},
                                                   {.title = "slots", .least = 6},
                                                   {.title = "started"},
                                                   {.title = "ran", .right = true},
                                                   {.title = "end"},
                                                   {.title = "what happened", .least = 12, .wraps = true}};

static void put_node(struct table *table, const cJSON *attempt, const cJSON *node, int64_t now)
{
    char clock[MOMENT_BYTES] = "", span[MOMENT_BYTES] = "", end[64];
    int64_t started = field_integer(node, "started");
    int64_t ended = field_present(node, "ended") ? field_integer(node, "ended") : now;
    snprintf(end, sizeof end, "%s", field_text(node, "exit"));
    if (field_number(node, "signal") > 0)
        snprintf(end, sizeof end, "%s, signal %" PRId64, field_text(node, "exit"), field_integer(node, "signal"));
    else if (field_number(node, "code") > 0)
        snprintf(end, sizeof end, "%s, code %" PRId64, field_text(node, "exit"), field_integer(node, "code"));
    table_put(table, "%" PRId64, field_integer(attempt, "epoch"));
    table_put(table, "%" PRId64, field_integer(node, "node"));
    table_put(table, "%s", field_text(node, "host"));
    table_put(table, "%s", field_text(node, "slots"));
    table_put(table, "%s", started ? moment_clock(started, clock) : "");
    table_put(table, "%s", started ? moment_span(ended - started, span) : "");
    table_put(table, "%s", end);
    if (field_true(node, "dropped"))
        table_put(table, "%s%sthe attempt went on without it", field_text(node, "detail"),
                  *field_text(node, "detail") ? "; " : "");
    else
        table_put(table, "%s",
                  *field_text(node, "detail") ? field_text(node, "detail") : field_text(attempt, "detail"));
}

static weft_status print_attempts(const cJSON *attempts, int64_t now, FILE *output, struct error *error)
{
    struct table table;
    const cJSON *attempt, *node;
    table_begin(&table, node_columns, sizeof node_columns / sizeof *node_columns);
    cJSON_ArrayForEach(attempt, attempts)
        cJSON_ArrayForEach(node, field(attempt, "nodes"))
            put_node(&table, attempt, node, now);
    weft_status status = WEFT_OK;
    if (table_rows(&table) > 0) {
        fputc('\n', output);
        status = table_print(&table, output, error);
    }
    table_end(&table);
    return status;
}

char *run_reason_alone(char *reason)
{
    char *start = strstr(reason, RUN_REASON_EXPECTED);
    if (start)
        *start = '\0';
    return reason;
}

static void print_disk(const cJSON *run, FILE *output)
{
    char text[96], bytes[32], quota[32];
    if (!field_present(run, "disk_bytes"))
        return;
    text_bytes((uint64_t)field_integer(run, "disk_bytes"), bytes, sizeof bytes);
    text_bytes((uint64_t)field_integer(run, "disk_quota"), quota, sizeof quota);
    const bool limited = field_present(run, "disk_quota");
    snprintf(text, sizeof text, "%s%s%s%s", bytes, limited ? " (it may take " : "", limited ? quota : "",
             limited ? ")" : "");
    print_value(output, "on disk", text);
}

weft_status run_print_whole(const cJSON *run, const char *why, int64_t now, FILE *output, struct error *error)
{
    char text[512], ran[MOMENT_BYTES], progress[PROGRESS_BYTES];
    snprintf(text, sizeof text, "%" PRId64 "%s%s", field_integer(run, "run"), *field_text(run, "name") ? "  " : "",
             field_text(run, "name"));
    print_value(output, "run", text);
    snprintf(text, sizeof text, "%s, of %s, class %s", field_text(run, "project"), field_text(run, "owner"),
             field_text(run, "class"));
    print_value(output, "project", text);
    print_value(output, "state", field_text(run, "state"));
    print_value(output, "why", why);
    run_print_moment(output, "submitted", run, "submitted", now);
    run_print_moment(output, "started", run, "first_started", now);
    run_print_moment(output, "ended", run, "ended", now);
    run_print_moment(output, "discarded", run, "discarded", now);
    print_value(output, "ran for", run_print_ran_text(run, now, ran));
    print_value(output, "progress", progress_text(run, now, progress));
    print_disk(run, output);
    print_asked(run, output);
    return print_attempts(field(run, "attempts"), now, output, error);
}
