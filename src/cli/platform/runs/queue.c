/* SPDX-License-Identifier: Apache-2.0 */
/* `weft queue`: the plan of the scheduler. */
#include "cli/platform/client/cells.h"
#include "cli/platform/client/list.h"
#include "cli/platform/client/run_print.h"

#include <inttypes.h>
#include <stdlib.h>

#define SHOWN_FIRST 50
#define PAGE_MOST   10000 /* the server's largest page */

static struct {
    bool running, resume, json, all;
    int64_t limit;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("running", 'r', &chosen.running, "also show running runs and their latest end"),
    CLI_FLAG("all", 'a', &chosen.all, "show all runs that wait"),
    CLI_INTEGER("limit", 'n', "N", &chosen.limit, NULL, 1, PAGE_MOST, "show the first N runs",
                .default_text = "50; all with --json"),
    CLI_FLAG("resume", 0, &chosen.resume,
             "resume scheduling after the server paused it because of unclean exits (administrators)"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each run; those that wait have a \"place\""),
};

/* Runs of projects that the user may not see have neither number nor names. */
#define NUMBER                                                                                                         \
    {                                                                                                                  \
        .title = "run", .right = true, .cell = "[{run}|-]"                                                             \
    }
#define PROJECT                                                                                                        \
    {                                                                                                                  \
        .title = "project", .least = 7, .cell = "[{run?}{project}|(hidden)]"                                           \
    }
#define OWNER                                                                                                          \
    {                                                                                                                  \
        .title = "owner", .least = 5, .cell = "{owner}"                                                                \
    }
#define SLOTS                                                                                                          \
    {                                                                                                                  \
        .title = "slots", .right = true, .cell = "{size}"                                                              \
    }

static const struct table_column waiting_columns[] = {
    {.title = "place", .right = true, .cell = "{place}"},
    NUMBER,
    PROJECT,
    OWNER,
    SLOTS,
    {.title = "waits", .cell = "{since:elapsed}"},
    {.title = "expected", .cell = "{expected_start:ago}"},
    {.title = "why", .least = 20, .wraps = true, .cell = "{reason}"},
};

static const struct table_column running_columns[] = {
    NUMBER,
    PROJECT,
    OWNER,
    SLOTS,
    {.title = "started", .cell = "{since:ago}"},
    {.title = "over by", .cell = "{ends_before:ago}"},
};

static weft_status queue_print_table(const cJSON *list, const struct table_column *columns, size_t count, FILE *output,
                                     struct error *error)
{
    cJSON *run;
    cJSON_ArrayForEach(run, list) {
        char size[48];
        run_size_text(field_integer(run, "nodes"), field_integer(run, "slots"), size, sizeof size);
        cJSON_AddStringToObject(run, "size", size);
        if (field_present(run, "expected_start") && *field_text(run, "reason"))
            run_reason_alone(cJSON_GetStringValue(field(run, "reason")));
    }
    return cells_print_table(columns, count, list, NULL, output, error);
}

/* What the server has answered, or pages of it put together. */
struct queue {
    cJSON *first;                   /**< the first reply: totals */
    const cJSON *waiting, *running; /**< of `first`, or of `pages` */
    cJSON *pages;                   /**< NULL: there is one page */
};

static weft_status queue_ask(struct platform *platform, int64_t most, const char *after, cJSON **reply,
                             struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "queue");
    platform_path_query_number(&path, "most", most);
    platform_path_query(&path, "after", after);
    return platform_get(platform, &path, reply, error);
}

static void move_items(cJSON *reply, const char *list, cJSON *pages)
{
    cJSON *from = cJSON_GetObjectItemCaseSensitive(reply, list), *to = cJSON_GetObjectItemCaseSensitive(pages, list);
    while (from && to && from->child)
        cJSON_AddItemToArray(to, cJSON_DetachItemViaPointer(from, from->child));
}

static int queue_compare_places(const void *left, const void *right)
{
    const double a = field_number(*(cJSON *const *)left, "place"), b = field_number(*(cJSON *const *)right, "place");
    return a < b ? -1 : a > b;
}

/* Pages come by the numbers of runs, so that none is missed or told of twice; the plan is by place. */
static weft_status sort_by_place(cJSON *list, struct error *error)
{
    size_t count = 0;
    const size_t room = ((size_t)cJSON_GetArraySize(list) + 1) * sizeof(cJSON *);
    cJSON **items = malloc(room);
    if (!items)
        return error_memory(error, room, "the queue");
    while (list->child)
        items[count++] = cJSON_DetachItemViaPointer(list, list->child);
    qsort(items, count, sizeof *items, queue_compare_places);
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, items[i]);
    free(items);
    return WEFT_OK;
}

/* The whole queue, page by page. */
static weft_status queue_read_all(struct platform *platform, struct queue *queue, struct error *error)
{
    char after[32] = "0";
    bool more = true;
    weft_status status = WEFT_OK;
    queue->pages = cJSON_CreateObject();
    cJSON *waiting = cJSON_AddArrayToObject(queue->pages, "queue");
    if (!waiting || !cJSON_AddArrayToObject(queue->pages, "running"))
        return error_memory(error, sizeof(cJSON), "the queue");
    while (status == WEFT_OK && more) {
        cJSON *reply = NULL;
        status = queue_ask(platform, PAGE_MOST, after, &reply, error);
        if (status != WEFT_OK)
            break;
        move_items(reply, "queue", queue->pages);
        move_items(reply, "running", queue->pages);
        more = field_present(reply, "next");
        snprintf(after, sizeof after, "%" PRId64, field_integer(reply, "next"));
        if (queue->first)
            cJSON_Delete(reply);
        else
            queue->first = reply;
    }
    return status == WEFT_OK ? sort_by_place(waiting, error) : status;
}

/* The first `limit` of each list; 0: all. */
static weft_status queue_read_queue(struct platform *platform, int64_t limit, struct queue *queue, struct error *error)
{
    weft_status status =
        limit > 0 ? queue_ask(platform, limit, NULL, &queue->first, error) : queue_read_all(platform, queue, error);
    const cJSON *lists = queue->pages ? queue->pages : queue->first;
    queue->waiting = field(lists, "queue");
    queue->running = field(lists, "running");
    return status;
}

static void queue_print_totals(int64_t waiting, int64_t waiting_slots, int64_t running, int64_t running_slots,
                               FILE *output)
{
    if (waiting == 0)
        fprintf(output, "nothing waits");
    else
        fprintf(output, "%" PRId64 " run%s for %" PRId64 " slot%s", waiting, waiting == 1 ? " waits" : "s wait",
                waiting_slots, waiting_slots == 1 ? "" : "s");
    if (running == 0)
        fprintf(output, "%s nothing runs\n", waiting ? "," : " and");
    else
        fprintf(output, "; %" PRId64 " run%s on %" PRId64 " slot%s\n", running, running == 1 ? "s" : "", running_slots,
                running_slots == 1 ? "" : "s");
}

static weft_status queue_print(const struct queue *queue, FILE *output, struct error *error)
{
    static const char how[] = "--all shows all, --limit N more or fewer";
    const int waiting = cJSON_GetArraySize(queue->waiting), run = cJSON_GetArraySize(queue->running);
    const int64_t all_waiting = field_integer(queue->first, "waiting");
    const int64_t all_running = field_integer(queue->first, "running_count");
    weft_status status = WEFT_OK;
    if (waiting > 0)
        status = queue_print_table(queue->waiting, waiting_columns, ARRAY_SIZE(waiting_columns), output, error);
    if (status == WEFT_OK && chosen.running && run > 0) {
        fputs(waiting > 0 ? "\n" : "", output);
        status = queue_print_table(queue->running, running_columns, ARRAY_SIZE(running_columns), output, error);
    }
    if (waiting > 0 || (chosen.running && run > 0))
        fputc('\n', output);
    queue_print_totals(all_waiting, field_integer(queue->first, "waiting_slots"), all_running,
                       field_integer(queue->first, "running_slots"), output);
    if (!queue->pages && waiting < all_waiting)
        platform_list_cut(output, "runs wait", "first", all_waiting, waiting, how);
    if (!queue->pages && chosen.running && run < all_running)
        platform_list_cut(output, "runs run", "first", all_running, run, how);
    return status;
}

static void print_lines(const cJSON *list, FILE *output)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
        platform_print_json(item, output);
}

/* Start runs again. */
static weft_status queue_resume(struct platform *platform, FILE *output, struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "queue/resume");
    weft_status status = platform_send(platform, "POST", &path, NULL, NULL, NULL, error);
    if (status == WEFT_OK)
        fprintf(output, "scheduling resumed\n");
    return status;
}

static weft_status queue_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct queue queue = {0};
    const int64_t limit = chosen.limit ? chosen.limit : chosen.all || chosen.json ? 0 : SHOWN_FIRST;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.resume) {
        status = queue_resume(&platform, call->output, error);
        platform_close(&platform);
        return status;
    }
    status = queue_read_queue(&platform, limit, &queue, error);
    if (status == WEFT_OK && chosen.json) {
        print_lines(queue.waiting, call->output);
        if (chosen.running)
            print_lines(queue.running, call->output);
    } else if (status == WEFT_OK) {
        platform_print_paused(queue.first);
        status = queue_print(&queue, call->output, error);
    }
    cJSON_Delete(queue.first);
    cJSON_Delete(queue.pages);
    platform_close(&platform);
    return status;
}

const struct command command_queue = {
    .name = "queue",
    .group = COMMAND_PLATFORM,
    .summary = "show which runs wait, in which order, and when they are expected to start",
    .description =
        "Lists waiting runs in the order in which the scheduler plans to start them. The order changes as runs "
        "end, arrive and age; an expected start is an estimate, not a promise. Runs of projects that you may not "
        "see are listed without names.\n\n"
        "After two unclean exits within 60 seconds, the server starts with scheduling paused: runs are accepted "
        "and wait, running runs continue, and nothing starts until an administrator runs 'weft queue --resume'.",
    .examples = "weft queue\nweft queue --running --limit 200\nweft queue --json > queue.jsonl\nweft queue --resume\n",
    COMMAND_OPTIONS(options),
    .run = queue_run,
};
