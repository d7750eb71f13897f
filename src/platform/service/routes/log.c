/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs print. A page is read by a thread of its own (it may look through 128 MiB of journals); what is added while
 * somebody watches is read on the HTTP server's thread, a quarter of a second apart, because that is little.
 */
#include "base/format/json_put.h"
#include "platform/agent/journal/journal.h"
#include "platform/runs/output.h"
#include "platform/service/internal/service_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUED_MOST  ((size_t)64 << 10) /* bytes that a watcher has not taken */
#define NODES_MOST   2048               /* whose output is watched at once, a node counted for each who watches it: */
#define OWN_MOST     512                /* of one user's */
#define HELD_MOST    ((size_t)64 << 20) /* bytes of lines that watchers have not read, when one more comes */
#define QUIET_TICKS  60 /* quarters of a second without a line, before an empty one shows that all is well */
#define NOTHING      "{\"lines\":[],\"more\":false,\"before\":null,\"after\":null}\n"
#define CURSOR_BYTES (RUN_OUTPUT_CURSOR_BYTES + 24)

/* A call for lines. */
struct log_reading {
    struct route_call *call;
    struct run_output_query query;
    char engine[FILE_PATH_BYTES];
    const char *cursor; /* within the attempt; NULL: none */
    bool forwards;
    struct run_output_page page;
    size_t written;                   /* lines of the page */
    struct run_output_follow *follow; /* NULL: the attempt has not begun */
    bool one_attempt;                 /* only this one is watched */
    unsigned quiet;
    struct log_reading *next; /* of those that watch */
};

static void log_release(void *kept)
{
    struct log_reading *reading = kept;
    for (struct log_reading **at = &service_of(reading->call)->watching; *at; at = &(*at)->next)
        if (*at == reading) {
            *at = reading->next;
            break;
        }
    run_output_page_free(&reading->page);
    run_output_follow_close(reading->follow);
    free(reading);
}

/* ---- what is asked for ---- */

static void begin_attempt(struct log_reading *reading, const struct registry_run *run, int64_t epoch)
{
    reading->query.attempt.epoch = (uint64_t)epoch;
    reading->query.nodes = (uint32_t)run->nodes;
    snprintf(reading->query.attempt.run, sizeof reading->query.attempt.run, "%" PRId64, run->run);
}

/* "EPOCH.CURSOR" of `before` or `after`. False: answered. */
static bool log_read_cursor(struct log_reading *reading, const char *name, int64_t *epoch)
{
    const struct route_value *value = route_value(reading->call, name);
    char *end = NULL;
    if (!value->given)
        return true;
    long long number = strtoll(value->text, &end, 10);
    if (number < 1 || number > INT32_MAX || *end != '.' || end[1] < '0' || end[1] > '9') {
        http_fail_parameter(reading->call->request, 400, name,
                            "this is no cursor of a line: give back one that came with a line");
        return false;
    }
    *epoch = number;
    reading->cursor = end + 1;
    reading->forwards = strcmp(name, "after") == 0;
    return true;
}

static int64_t number_or_any(const struct route_call *call, const char *name)
{
    const struct route_value *value = route_value(call, name);
    return value->given ? value->integer : RUN_OUTPUT_ANY;
}

/* False: answered. */
static bool log_read_query(struct log_reading *reading, const struct registry_run *run)
{
    struct route_call *call = reading->call;
    struct error error = {0};
    int64_t epoch = run->epoch;
    if (route_value(call, "before")->given && route_value(call, "after")->given) {
        http_fail_parameter(call->request, 400, "after", "lines are either before a cursor or after one, not both");
        return false;
    }
    if (!log_read_cursor(reading, "before", &epoch) || !log_read_cursor(reading, "after", &epoch))
        return false;
    if (route_value(call, "attempt")->given) {
        epoch = reading->cursor ? epoch : route_value(call, "attempt")->integer;
        reading->one_attempt = true;
    }
    if (epoch > run->epoch) {
        http_fail(call->request, 400, "run %" PRId64 " has had %" PRId64 " attempt%s, and no %" PRId64, run->run,
                  run->epoch, run->epoch == 1 ? "" : "s", epoch);
        return false;
    }
    if (file_join(reading->engine, service_of(call)->directory, "engine", &error) != WEFT_OK) {
        http_fail_error(call->request, &error);
        return false;
    }
    reading->query.engine = reading->engine;
    reading->query.node = number_or_any(call, "node");
    reading->query.rank = number_or_any(call, "rank");
    reading->query.stream = number_or_any(call, "stream");
    reading->query.search = route_value(call, "search")->text;
    begin_attempt(reading, run, epoch);
    return true;
}

/* ---- lines ---- */

static const char *cursor_of(const struct log_reading *reading, const char *cursor, char text[CURSOR_BYTES])
{
    if (!*cursor)
        return NULL;
    snprintf(text, CURSOR_BYTES, "%" PRIu64 ".%s", reading->query.attempt.epoch, cursor);
    return text;
}

static void log_put_line(struct json_writer *writer, const struct log_reading *reading,
                         const struct run_output_line *line)
{
    char inner[RUN_OUTPUT_CURSOR_BYTES], cursor[CURSOR_BYTES];
    JSON_PUT_OBJECT(writer, NULL, "time", (int64_t)(line->time / 1000), "attempt", reading->query.attempt.epoch, "node",
                    line->node, "rank", json_known(line->rank != JOURNAL_NO_RANK, line->rank), "stream", line->stream,
                    "text", line->text, "cursor", cursor_of(reading, run_output_cursor(line, inner), cursor));
}

static weft_status log_read_page(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct log_reading *reading = call->kept;
    char text[CURSOR_BYTES];
    weft_status status = run_output_page(&reading->query, reading->cursor, reading->forwards,
                                         (size_t)route_value(call, "most")->integer, &reading->page, error);
    if (status != WEFT_OK || route_value(call, "follow")->truth)
        return status;
    json_open_object(answer, NULL);
    json_open_array(answer, "lines");
    for (size_t i = 0; i < reading->page.count; i++)
        log_put_line(answer, reading, &reading->page.lines[i]);
    json_close(answer);
    JSON_PUT(answer, "more", reading->page.more, "before", cursor_of(reading, reading->page.before, text), "after",
             cursor_of(reading, reading->page.after, text));
    json_close(answer);
    return WEFT_OK;
}

/* ---- watching ---- */

/* Write the page's lines to the stream, a line of JSON each, until the client has to read first (false). Otherwise the
 * page is empty then. */
static bool log_write_lines(struct log_reading *reading)
{
    const struct run_output_page *page = &reading->page;
    const size_t queued = http_stream_queued(reading->call->request);
    struct buffer lines = {0};
    while (reading->written < page->count && queued + buffer_size(&lines) < QUEUED_MOST) {
        struct json_writer writer;
        json_begin(&writer, JSON_LINE);
        log_put_line(&writer, reading, &page->lines[reading->written++]);
        if (json_text(&writer)) {
            buffer_put(&lines, json_text(&writer), json_size(&writer));
            buffer_put(&lines, "\n", 1);
        }
        json_end(&writer);
    }
    http_stream_write(reading->call->request, buffer_begin(&lines), buffer_size(&lines));
    buffer_free(&lines);
    if (reading->written < page->count)
        return false;
    run_output_page_free(&reading->page);
    reading->written = 0;
    return true;
}

/* Write new lines. True: there is more to write, of this attempt or of the next, and room for it. */
static bool log_follow_on(struct log_reading *reading)
{
    struct database *reader = service_of(reading->call)->reader;
    struct registry_run run;
    int64_t epoch = (int64_t)reading->query.attempt.epoch;
    if (registry_run_get(reader, route_value(reading->call, "run")->integer, &run, NULL) != WEFT_OK)
        return false; /* it cannot be read at the moment */
    bool over = run_state_is_final(run.state) || (reading->one_attempt && run.epoch > epoch);
    if (epoch == 0 && run.epoch > 0)
        begin_attempt(reading, &run, ++epoch);
    if (!reading->follow && epoch > 0 &&
        run_output_follow(&reading->query, NULL, NULL, &reading->follow, NULL) != WEFT_OK)
        over = true;
    bool more = false;
    if (reading->follow && run_output_follow_next(reading->follow, &reading->page, NULL) == WEFT_OK) {
        more = reading->page.more;
        reading->quiet = reading->page.count ? 0 : reading->quiet;
        if (!log_write_lines(reading))
            return false;
    }
    if (more)
        return true;
    if (run.epoch > epoch && !reading->one_attempt) {
        run_output_follow_close(reading->follow);
        reading->follow = NULL;
        begin_attempt(reading, &run, epoch + 1);
        return true;
    }
    if (over)
        http_stream_end(reading->call->request);
    return false;
}

static void log_drained(void *context)
{
    struct log_reading *reading = context;
    for (int turn = 0; turn < 4; turn++) /* others are served in between */
        if (!log_write_lines(reading) || !log_follow_on(reading))
            return;
}

static void log_idle(void *context)
{
    struct log_reading *reading = context;
    if (++reading->quiet % QUIET_TICKS == 0)
        http_stream_write(reading->call->request, "\n", 1);
    log_drained(context);
}

static size_t log_bytes_of(const struct run_output_page *page)
{
    return buffer_size(&page->texts) + page->count * sizeof *page->lines;
}

/* Whether one more may watch: each looks at the journals of all of its nodes, four times a second. False: answered. */
static bool may_watch(struct log_reading *reading)
{
    struct route_call *call = reading->call;
    const uint32_t nodes = reading->query.node == RUN_OUTPUT_ANY ? reading->query.nodes : 1;
    uint32_t all = nodes, own = nodes;
    size_t held = log_bytes_of(&reading->page);
    for (const struct log_reading *each = service_of(call)->watching; each; each = each->next) {
        const uint32_t watched = each->query.node == RUN_OUTPUT_ANY ? each->query.nodes : 1;
        all += watched;
        held += log_bytes_of(&each->page);
        own += strcmp(each->call->who.user, call->who.user) == 0 ? watched : 0;
    }
    if (all <= NODES_MOST && own <= OWN_MOST && held <= HELD_MOST)
        return true;
    http_reply_header(call->request, "Retry-After", "10");
    if (own > OWN_MOST)
        http_fail(call->request, 429,
                  "you watch the output of %" PRIu32 " nodes already, and %d are the most: end some of that, or choose "
                  "a node",
                  own - nodes, OWN_MOST);
    else if (all <= NODES_MOST)
        http_fail(call->request, 503,
                  "who watches output already has yet to read too much of it: ask for fewer lines, or try again later");
    else
        http_fail(call->request, 503,
                  "the output of %" PRIu32 " nodes is watched already, and %d are the most: try again later, or choose "
                  "a node",
                  all - nodes, NODES_MOST);
    return false;
}

/* The last lines are there: show them, and what comes. */
static void begin_stream(struct route_call *call, weft_status status, const struct error *error)
{
    struct log_reading *reading = call->kept;
    struct error failure = {0};
    if (status == WEFT_OK && reading->query.attempt.epoch > 0)
        status = run_output_follow(&reading->query, reading->cursor ? NULL : reading->page.ends, reading->cursor,
                                   &reading->follow, &failure);
    if (status != WEFT_OK) {
        http_fail_error(call->request, failure.status != WEFT_OK ? &failure : error);
        return;
    }
    if (!may_watch(reading))
        return;
    reading->next = service_of(call)->watching;
    service_of(call)->watching = reading;
    http_stream_begin(call->request, 200, "application/x-ndjson",
                      &(struct http_stream_events){.drained = log_drained, .idle = log_idle, .context = reading});
    if (route_value(call, "most")->integer == 0)
        run_output_page_free(&reading->page); /* it has told where the end is */
    log_write_lines(reading);
}

/* ---- the route ---- */

static void log_read(struct route_call *call)
{
    struct registry_run run;
    struct log_reading *reading = calloc(1, sizeof *reading);
    static const struct error none = {0};
    if (!reading) {
        http_fail(call->request, 503, "the server is out of memory at the moment");
        return;
    }
    reading->call = call;
    call->kept = reading;
    call->release = log_release;
    if (!service_run(call, &run) || !service_has_files(call, &run) || !log_read_query(reading, &run))
        return;
    bool follow = route_value(call, "follow")->truth;
    if (!follow && route_value(call, "most")->integer == 0)
        http_fail_parameter(call->request, 400, "most", "most=0 needs follow=true");
    else if (follow && reading->cursor && !reading->forwards)
        http_fail_parameter(call->request, 400, "before", "new lines come after a cursor, not before one");
    else if (follow && (reading->cursor || run.epoch == 0))
        begin_stream(call, WEFT_OK, &none);
    else if (run.epoch == 0)
        http_reply(call->request, 200, "application/json", NOTHING, sizeof NOTHING - 1);
    else
        background_do(service_of(call)->reading, call, log_read_page, follow ? begin_stream : NULL);
}

static const struct route_parameter log_parameters[] = {
    SERVICE_RUN_PARAMETER,
    ROUTE_NUMBERED("attempt", 1, 1e9, NULL, "Of this attempt, not of the last."),
    ROUTE_NUMBERED("node", 0, 65535, NULL, "Only lines of this node."),
    ROUTE_NUMBERED("rank", 0, 1e8, NULL, "Only lines that name this rank."),
    ROUTE_NUMBERED("stream", 1, 2, NULL, "Only of standard output (1) or standard error (2)."),
    {.name = "search", .least = 1, .most = 256, .meaning = "Only lines that contain this text, ignoring case."},
    {.name = "before", .least = 1, .most = 120, .meaning = "The last lines before this cursor, not before the end."},
    {.name = "after", .least = 1, .most = 120, .meaning = "The first lines after this cursor."},
    ROUTE_NUMBERED("most", 0, RUN_OUTPUT_LINES_MOST, "1000",
                   "How many at most; with follow=true, how many of those that are there already."),
    ROUTE_FLAG("follow", "Go on with what comes, until the run has ended: a line of JSON for each line, and empty ones "
                         "while nothing comes."),
    {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/runs/{run}/logs",
     .operation = "readLog",
     .summary =
         "The output of a run: the last lines, or those before or after a cursor; with follow=true also new ones.",
     .permission = ROUTE_VIEWER,
     .parameters = log_parameters,
     .project_of = service_project_of_run,
     .response = "Log",
     .handler = log_read},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Log", SCHEMA({"type": "object", "required": ["lines", "more"], "properties": {
        "lines": {"type": "array", "items": {"$ref": "#/components/schemas/LogLine"}},
        "more": {"type": "boolean", "description": "There are more lines in this direction."},
        "before": {"type": "string", "nullable": true, "description": "The cursor before which older lines are."},
        "after": {"type": "string", "nullable": true, "description": "The cursor after which newer lines are."}}})},
    {"LogLine", SCHEMA({"type": "object", "required": ["time", "node", "stream", "text", "cursor"], "properties": {
        "time": {"type": "integer"}, "attempt": {"type": "integer"}, "node": {"type": "integer"},
        "rank": {"type": "integer", "nullable": true, "description": "The rank named in the line."},
        "stream": {"type": "integer", "description": "1: standard output, 2: standard error, 0: the platform's own."},
        "text": {"type": "string"}, "cursor": {"type": "string"}}})},
};
/* clang-format on */

const struct route_table log_routes = ROUTE_TABLE("runs");
