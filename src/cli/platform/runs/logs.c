/* SPDX-License-Identifier: Apache-2.0 */
/* `weft logs`: what a run has printed, and what it prints. */
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/platform/client/client.h"
#include "cli/platform/client/run_lines.h"
#include "cli/platform/client/run_reference.h"
#include "platform/registry/run_specification.h"

#include <inttypes.h>
#include <string.h>

#define NONE       (-1)
#define PAGE_MOST  "10000"
#define WATCH_MOST 1000 /* earlier lines that --follow shows */

static struct {
    bool follow, times, json;
    int64_t node, rank, attempt, last;
    const char *search;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("follow", 'f', &chosen.follow, "follow the output until the run ends"),
    CLI_INTEGER("last", 'n', "N", &chosen.last, "-1", -1, 1e9, "only the last N lines",
                .default_text = "all that are kept; with --follow, the last 1000"),
    CLI_TEXT("search", 's', "TEXT", &chosen.search, NULL, "only lines that contain TEXT, ignoring case"),
    CLI_INTEGER("rank", 'r', "N", &chosen.rank, "-1", -1, 100000000, "only lines of this rank", .default_text = "all"),
    CLI_INTEGER("node", 0, "N", &chosen.node, "-1", -1, 65535, "only lines of this node, counted from 0",
                .default_text = "all"),
    CLI_INTEGER("attempt", 'a', "N", &chosen.attempt, "0", 0, 1000000000, "only lines of this attempt, counted from 1",
                .default_text = "the last"),
    CLI_FLAG("times", 't', &chosen.times, "print the time before each line"),
    CLI_FLAG("json", 0, &chosen.json, "print a line of JSON for each line"),
};

/* Where lines are read from, and go to. */
struct logs_reading {
    struct platform *platform;
    int64_t run, epoch;
    bool several; /* nodes */
    bool any;     /* a line was printed */
    FILE *output;
};

/* ---- a line ---- */

static void logs_print_line(struct logs_reading *reading, const cJSON *line)
{
    reading->any = true;
    if (chosen.json) {
        platform_print_json(line, reading->output);
        return;
    }
    if (chosen.times) {
        char text[MOMENT_BYTES];
        const int64_t time = field_integer(line, "time");
        fprintf(reading->output, "%s.%03d ", moment_clock(time, text), (int)(time % 1000));
    }
    run_lines_print_origin(line, reading->several, reading->output);
    if (field_present(line, "stream") && field_integer(line, "stream") == 0)
        fprintf(reading->output, "weft: ");
    fprintf(reading->output, "%s\n", field_text(line, "text"));
}

/* ---- asking ---- */

static void begin_path(const struct logs_reading *reading, struct platform_path *path)
{
    platform_path_run(path, reading->run, "logs");
    if (chosen.node != NONE)
        platform_path_query_number(path, "node", chosen.node);
    if (chosen.rank != NONE)
        platform_path_query_number(path, "rank", chosen.rank);
    platform_path_query(path, "search", chosen.search);
}

/* Print a page; `cursor` becomes the position after it. */
static weft_status print_page(struct logs_reading *reading, const struct platform_path *path, char *cursor, size_t room,
                              bool *more, struct error *error)
{
    cJSON *page = NULL;
    weft_status status = platform_get(reading->platform, path, &page, error);
    if (status != WEFT_OK)
        return status;
    const cJSON *line;
    cJSON_ArrayForEach(line, field(page, "lines"))
        logs_print_line(reading, line);
    *more = field_true(page, "more");
    snprintf(cursor, room, "%s", field_text(page, "after"));
    cJSON_Delete(page);
    return ferror(reading->output) ? error_system(error, "cannot print the lines") : WEFT_OK;
}

/* All lines that are kept. */
static weft_status print_all(struct logs_reading *reading, struct error *error)
{
    struct platform_path path;
    char cursor[160];
    bool more = true;
    snprintf(cursor, sizeof cursor, "%" PRId64 ".0.0.0.0", reading->epoch);
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && more) {
        begin_path(reading, &path);
        platform_path_query(&path, "after", cursor);
        platform_path_query(&path, "most", PAGE_MOST);
        status = print_page(reading, &path, cursor, sizeof cursor, &more, error);
    }
    return status;
}

/* Read the pages of the last lines backward, then print them forward. */
static weft_status print_last(struct logs_reading *reading, struct error *error)
{
    char cursor[160] = "";
    int64_t left = chosen.last;
    weft_status status = WEFT_OK;
    cJSON *pages = cJSON_CreateArray();
    for (bool more = true; pages && status == WEFT_OK && more && left > 0;) {
        struct platform_path path;
        cJSON *page = NULL;
        begin_path(reading, &path);
        if (reading->epoch)
            platform_path_query_number(&path, "attempt", reading->epoch);
        platform_path_query(&path, "before", *cursor ? cursor : NULL);
        platform_path_query_number(&path, "most", left < 10000 ? left : 10000);
        status = platform_get(reading->platform, &path, &page, error);
        if (status != WEFT_OK)
            break;
        more = field_true(page, "more");
        left -= cJSON_GetArraySize(field(page, "lines"));
        snprintf(cursor, sizeof cursor, "%s", field_text(page, "before"));
        if (!cJSON_InsertItemInArray(pages, 0, page))
            cJSON_Delete(page);
    }
    const cJSON *page, *line;
    if (status == WEFT_OK)
        cJSON_ArrayForEach(page, pages)
            cJSON_ArrayForEach(line, field(page, "lines"))
                logs_print_line(reading, line);
    cJSON_Delete(pages);
    return status;
}

static void logs_take_line(void *context, const cJSON *line, bool several)
{
    logs_print_line(context, line);
}

static weft_status logs_follow(struct logs_reading *reading, int *exit_code, struct error *error)
{
    struct platform_path path;
    cJSON *ended = NULL;
    begin_path(reading, &path);
    const struct run_lines lines = {.run = reading->run,
                                    .attempt = chosen.attempt,
                                    .last = chosen.last == NONE   ? WATCH_MOST
                                            : chosen.last < 10000 ? chosen.last
                                                                  : 10000,
                                    .path = &path,
                                    .output = reading->output,
                                    .take = logs_take_line,
                                    .context = reading};
    weft_status status = run_lines_follow(reading->platform, &lines, &ended, error);
    if (status != WEFT_OK)
        *exit_code = RUN_LINES_LOST;
    cJSON_Delete(ended);
    return status;
}

/* Say why nothing was printed: metrics are not among the lines, and the rank or node may be wrong. */
static void tell_nothing(const struct logs_reading *reading)
{
    char rank[32] = "", node[32] = "";
    if (chosen.rank != NONE)
        snprintf(rank, sizeof rank, " of rank %" PRId64, chosen.rank);
    if (chosen.node != NONE)
        snprintf(node, sizeof node, " of node %" PRId64, chosen.node);
    if (*rank || *node || chosen.search)
        fprintf(stderr, "weft: run %" PRId64 " has printed no line%s%s%s%s%s\n", reading->run, rank, node,
                chosen.search ? " with '" : "", chosen.search ? chosen.search : "", chosen.search ? "' in it" : "");
    else
        fprintf(stderr, "weft: run %" PRId64 " has printed nothing, or only metrics: weft metrics %" PRId64 "\n",
                reading->run, reading->run);
}

/* ---- the command ---- */

static weft_status logs_print(struct logs_reading *reading, const char *word, int *exit_code, struct error *error)
{
    cJSON *object = NULL;
    weft_status status = run_reference_get(reading->platform, word, &reading->run, &object, error);
    if (status != WEFT_OK)
        return status;
    reading->epoch = chosen.attempt ? chosen.attempt : field_integer(object, "epoch");
    reading->several = field_integer(object, "nodes") > 1 && chosen.node == NONE;
    if (chosen.attempt > field_integer(object, "epoch"))
        status = error_set(error, WEFT_ERROR_ARGUMENT, "run %" PRId64 " has had %" PRId64 " attempt%s, and no %" PRId64,
                           reading->run, field_integer(object, "epoch"), field_integer(object, "epoch") == 1 ? "" : "s",
                           chosen.attempt);
    else if (!chosen.follow && reading->epoch == 0)
        fprintf(stderr, "weft: run %" PRId64 " has printed nothing: it is %s\n", reading->run,
                field_text(object, "state"));
    else if (chosen.follow)
        status = logs_follow(reading, exit_code, error);
    else
        status = chosen.last == NONE ? print_all(reading, error) : print_last(reading, error);
    if (status == WEFT_OK && reading->epoch > 0 && chosen.last != 0 && !reading->any)
        tell_nothing(reading);
    cJSON_Delete(object);
    return status;
}

static weft_status logs_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct logs_reading reading = {.platform = &platform, .output = call->output};
    char name[RUN_NAME_BYTES];
    int64_t node;
    weft_status status = run_reference_divide(call->words[0], name, sizeof name, &node, error);
    if (status == WEFT_OK && node != RUN_NODE_NONE)
        chosen.node = node;
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = logs_print(&reading, name, &call->exit_code, error);
    platform_close(&platform);
    return status;
}

const struct command command_logs = {
    .name = "logs",
    .group = COMMAND_PLATFORM,
    .summary = "show what a run has printed, and what it prints",
    .description =
        "Prints the standard output and error of a run's command: the lines of all nodes by time, each after its "
        "node if there are several. Metrics (lines of JSON) are not among them; see weft metrics. --follow "
        "continues until the run ends, through all of its attempts. If the server goes away, it waits a minute for "
        "it, then exits with 125.\n\n"
        "A node is written RUN/node-N, with N counted from 0. The newest 256 MiB of each node are kept.",
    .examples = "weft logs 12\nweft logs -f 12\nweft logs 12/node-1 --rank 3 --last 100\nweft logs 12 --search error\n",
    .words = "RUN[/node-N]",
    COMMAND_OPTIONS(options),
    .run = logs_run,
};
