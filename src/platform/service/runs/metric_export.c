/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     HTTP thread:  metric_export ──►  ──► deliver ──► written ──► drained ──►
 *     writer:                      fill          (a piece)                 fill ...
 *
 * The struct belongs to whichever of the two threads has it: to the writer from writer_post() to http_post(), otherwise
 * to the HTTP server's. `closed` is that one's alone.
 */
#include "platform/service/internal/service_state.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "core/control/wire/frame.h"
#include "platform/metrics/read/text.h"
#include "platform/metrics/store/points.h"
#include "platform/service/internal/service_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_POINTS 8192               /* some 400 KiB; a few milliseconds of the writer's */
#define QUEUED_MOST  ((size_t)64 << 10) /* that the client has not taken yet, when the next piece is asked for */

struct export
{
    struct writer *writer;
    struct http_server *server;
    struct http_request *request;
    struct http_posted posted;
    int64_t run, rank, attempt;
    char name[METRIC_NAME_MOST + 1];
    bool json;
    /* What the writer makes: */
    struct metric_place place;
    struct buffer piece;
    bool begun, done;
    struct error error;
    /* What the server's thread knows: */
    bool streaming, closed, at_work;
};

static void metric_export_release(struct export *export)
{
    buffer_free(&export->piece);
    free(export);
}

/* ---- the writer's part ---- */

static weft_status write_point(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                               struct error *error)
{
    struct export *export = state;
    char line[160], number[TEXT_NUMBER_BYTES];
    const char *quote = isfinite(point->value) ? "" : "\"";
    const int64_t time = point->time < 0 ? -point->time : point->time;
    int length;
    if (export->json)
        length = snprintf(line, sizeof line, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s%s%s]",
                          export->begun ? "," : "", rank, attempt, point->step, point->time / 1000, quote,
                          metric_text_number(point->value, number), quote);
    else
        length = snprintf(line, sizeof line, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%s%" PRId64 ".%06" PRId64 ",%s\n",
                          rank, attempt, point->step, point->time < 0 ? "-" : "", time / 1000000, time % 1000000,
                          text_number(point->value, number));
    export->begun = true;
    buffer_put(&export->piece, line, (size_t)length);
    return export->piece.failed ? error_memory(error, sizeof line, "an export of metrics") : WEFT_OK;
}

static void metric_export_write_head(struct export *export)
{
    struct json_writer head;
    if (!export->json) {
        buffer_put(&export->piece, "rank,attempt,step,time,value\n", 29);
        return;
    }
    json_begin_line(&head);
    JSON_PUT(&head, "run", export->run, "name", export->name);
    json_open_array(&head, "columns");
    static const char *const columns[] = {"rank", "attempt", "step", "time", "value"};
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        json_put_text(&head, NULL, columns[i]);
    json_close(&head);
    json_open_array(&head, "points");
    const char *text = json_text(&head);
    if (text)
        buffer_put(&export->piece, text, strlen(text));
    export->piece.failed = export->piece.failed || !text;
    json_end(&head);
}

static void metric_export_deliver(void *context);

static void metric_export_fill(struct writer *writer, void *context)
{
    struct export *export = context;
    if (!writer) {
        error_set(&export->error, WEFT_ERROR_SYSTEM, "the server is stopping: ask again later");
    } else {
        if (!export->place.begun)
            metric_export_write_head(export);
        weft_status status =
            metric_points_page(writer_metrics(writer), export->run, export->name, export->rank, export->attempt,
                               &export->place, PIECE_POINTS, write_point, export, &export->done, &export->error);
        if (status == WEFT_OK && export->done && export->json)
            buffer_put(&export->piece, "]}\n", 3);
        if (status == WEFT_OK && export->piece.failed)
            error_memory(&export->error, PIECE_POINTS, "an export of metrics");
    }
    if (!http_post(export->server, &export->posted, metric_export_deliver, export))
        metric_export_release(export); /* the server is stopping, and frees the request */
}

/* ---- the server's part ---- */

/* Have the writer write the next piece. False: it never will. */
static bool metric_export_ask(struct export *export)
{
    export->at_work = true;
    if (writer_post(export->writer, metric_export_fill, export))
        return true;
    export->at_work = false;
    return false;
}

static void metric_export_drained(void *context)
{
    struct export *export = context;
    if (export->at_work || export->done)
        return;
    if (!metric_export_ask(export)) {
        http_stream_end(export->request);
        metric_export_release(export);
    }
}

static void metric_export_closed(void *context)
{
    struct export *export = context;
    export->closed = true;
    if (!export->at_work)
        metric_export_release(export);
}

static void metric_export_begin(struct export *export)
{
    const struct http_stream_events events = {
        .drained = metric_export_drained, .closed = metric_export_closed, .context = export};
    http_reply_header(export->request, "Content-Disposition",
                      export->json ? "attachment; filename=\"metric.json\"" : "attachment; filename=\"metric.csv\"");
    export->streaming = true;
    http_stream_begin(export->request, 200, export->json ? "application/json" : "text/csv; charset=utf-8", &events);
}

/* A piece has come, or an error: one that comes within the stream cuts it, so that no JSON and no last line is whole.
 */
static void metric_export_deliver(void *context)
{
    struct export *export = context;
    const bool failed = export->error.status != WEFT_OK;
    export->at_work = false;
    if (export->closed) {
        metric_export_release(export);
        return;
    }
    if (failed && !export->streaming) {
        http_fail_error(export->request, &export->error);
        metric_export_release(export);
        return;
    }
    if (!export->streaming)
        metric_export_begin(export);
    if (!failed)
        http_stream_write(export->request, buffer_begin(&export->piece), buffer_size(&export->piece));
    buffer_consume(&export->piece, buffer_size(&export->piece));
    if (failed || export->done || (http_stream_queued(export->request) < QUEUED_MOST && !metric_export_ask(export))) {
        http_stream_end(export->request);
        metric_export_release(export);
    }
}

static int64_t metric_export_choice_of(const struct route_call *call, const char *name)
{
    const struct route_value *value = route_value(call, name);
    return value->given ? value->integer : METRIC_ANY;
}

void metric_export(struct route_call *call)
{
    struct service *service = service_of(call);
    struct export *export = calloc(1, sizeof *export);
    if (!export) {
        http_fail(call->request, 503, "the server has no memory for that at the moment");
        return;
    }
    *export = (struct export){.writer = service->writer,
                              .server = service->server,
                              .request = call->request,
                              .run = route_value(call, "run")->integer,
                              .rank = metric_export_choice_of(call, "rank"),
                              .attempt = metric_export_choice_of(call, "attempt"),
                              .json = strcmp(route_value(call, "format")->text, "json") == 0};
    snprintf(export->name, sizeof export->name, "%s", route_value(call, "name")->text);
    if (metric_export_ask(export))
        return;
    http_fail(call->request, 503, "the server is stopping");
    metric_export_release(export);
}
