/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/trace_file.h"

#include "base/format/json_put.h"
#include "core/collective/communicator/context.h"
#include "core/schedule/format/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACKS_OF_COMMUNICATOR 32 /* the operations, then the lanes */
#define TRACKS                 1024

/* The file, and the rank whose events are being written. */
struct trace_file_file {
    FILE *stream;
    bool any;
    uint64_t zero;    /* rank 0's clock_now() at the file's time 0: the end of the rendezvous */
    uint64_t pairs;   /* numbers of asynchronous events so far */
    bool one_machine; /* with rank 0: its ticks are rank 0's */
    double tick, tick_zero;
    struct clock_timestamp reference; /* of rank 0 */
    uint32_t rank;
    const struct trace_header *header;
    uint32_t tracks[TRACKS], track_count; /* named already */
};

static void trace_file_put_line(struct trace_file_file *file, struct json_writer *line)
{
    const char *text = json_text(line);
    if (text)
        fprintf(file->stream, "%s%s", file->any ? ",\n" : "", text);
    file->any = true;
    json_end(line);
}

/* The file is in microseconds, to the nanosecond. */
static double microseconds(double nanoseconds)
{
    return (double)llround(nanoseconds) / 1000;
}

/* The file's time of a tick. */
static double trace_time(const struct trace_file_file *file, uint64_t ticks)
{
    const struct trace_header *header = file->header;
    if (file->one_machine) {
        double since = (double)(int64_t)(ticks - file->reference.ticks) * file->tick_zero;
        return microseconds((double)(int64_t)(file->reference.now - file->zero) + since);
    }
    double length = (double)(header->closed.now - header->opened.now);
    double since = (double)(int64_t)(ticks - header->opened.ticks) * file->tick, share = since / length;
    double offset = (double)header->offset[0] + share * (double)(header->offset[1] - header->offset[0]);
    return microseconds((double)(int64_t)(header->opened.now - file->zero) - offset + since);
}

static double duration(const struct trace_file_file *file, uint64_t ticks)
{
    return microseconds((double)(int64_t)ticks * file->tick);
}

static void trace_file_begin_event(struct json_writer *line, const char *name, const char *category, const char *phase,
                                   uint32_t rank, uint32_t track)
{
    json_begin_line(line);
    json_put_text(line, "name", name);
    if (category)
        json_put_text(line, "cat", category);
    JSON_PUT(line, "ph", phase, "pid", rank, "tid", track);
}

static void put_track_name(struct trace_file_file *file, uint32_t track, const char *name)
{
    struct json_writer line;
    trace_file_begin_event(&line, "thread_name", NULL, "M", file->rank, track);
    JSON_PUT_OBJECT(&line, "args", "name", name);
    json_close(&line);
    trace_file_put_line(file, &line);
}

/* The track of a communicator's operations (lane < 0) or of a lane of theirs; named when it is first used. */
static uint32_t track_of(struct trace_file_file *file, uint32_t communicator, int lane)
{
    char name[COMM_NAME_BYTES], text[96];
    uint32_t track = communicator * TRACKS_OF_COMMUNICATOR + (uint32_t)(lane + 1);
    for (uint32_t i = 0; i < file->track_count; i++)
        if (file->tracks[i] == track)
            return track;
    if (file->track_count == TRACKS)
        return track;
    file->tracks[file->track_count++] = track;
    comm_name(communicator, name, sizeof name);
    if (lane < 0)
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "%s, lane %d", name, lane);
    put_track_name(file, track, text);
    return track;
}

/* The category by which Perfetto groups and colors. */
static const char *step_category(enum step_kind kind)
{
    switch (kind) {
    case STEP_SEND:
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE:
        return "message";
    case STEP_COPY:
    case STEP_REDUCE:
    case STEP_FINISH:
        return "local";
    case STEP_AWAIT:
        return "wait";
    case STEP_EXCHANGE:
        return "exchange";
    default:
        return "near";
    }
}

static void put_step(struct trace_file_file *file, const struct trace_event *event)
{
    struct json_writer line;
    if (event->communicator & COMM_MESSAGES)
        return; /* the operation's event is enough */
    trace_file_begin_event(&line, step_kind_name((enum step_kind)event->what),
                           step_category((enum step_kind)event->what), "X", file->rank,
                           track_of(file, event->communicator, event->lane));
    JSON_PUT(&line, "ts", trace_time(file, event->begin), "dur", duration(file, event->end - event->begin));
    JSON_PUT_OBJECT(&line, "args", "communicator", event->communicator, "sequence", event->sequence, "lane",
                    event->lane, "segment", event->called, "bytes", event->bytes, "peer", event->peer);
    json_close(&line);
    trace_file_put_line(file, &line);
}

static void put_arguments(const struct trace_file_file *file, const struct trace_event *event, struct json_writer *line)
{
    enum collective collective = (enum collective)event->what;
    json_open_object(line, "args");
    JSON_PUT(line, "algorithm", file->header->algorithms[event->algorithm % TRACE_ALGORITHMS], "bytes", event->bytes);
    if (collective != COLLECTIVE_BARRIER)
        json_put_text(line, "type", weft_type_name((weft_type)event->type));
    if (collective_reduces(collective))
        json_put_text(line, "op", weft_op_name((weft_op_kind)event->op));
    if (collective_is_rooted(collective))
        json_put_integer(line, "root", event->peer);
    JSON_PUT(line, "communicator", event->communicator & COMM_IDS, "sequence", event->sequence, "queued_us",
             duration(file, event->begin - event->called), "waited_us", duration(file, event->waited));
    json_close(line);
}

/*
 * Collectives of a communicator follow one another; messages overlap, so each is written as a begin and an end event.
 */
static void trace_file_put_operation(struct trace_file_file *file, const struct trace_event *event)
{
    struct json_writer line;
    bool is_message = event->communicator & COMM_MESSAGES;
    uint32_t communicator = event->communicator & COMM_IDS, track = track_of(file, communicator, -1);
    char name[64];
    if (!is_message) {
        trace_file_begin_event(&line, call_name(event->what), "operation", "X", file->rank, track);
        JSON_PUT(&line, "ts", trace_time(file, event->begin), "dur", duration(file, event->end - event->begin));
        put_arguments(file, event, &line);
        json_close(&line);
        trace_file_put_line(file, &line);
        return;
    }
    snprintf(name, sizeof name, "%s %u", event->op == MESSAGE_SENT ? "send to" : "receive from", event->peer);
    file->pairs++;
    for (int end = 0; end < 2; end++) {
        trace_file_begin_event(&line, name, "send and receive", end ? "e" : "b", file->rank, track);
        JSON_PUT(&line, "id", file->pairs, "ts", trace_time(file, end ? event->end : event->begin));
        if (!end)
            put_arguments(file, event, &line);
        json_close(&line);
        trace_file_put_line(file, &line);
    }
}

/* The rank's identity. Viewers show the name; the rest is for programs (observe/inspect/timeline.h). */
static void trace_file_put_rank(struct trace_file_file *file, const struct endpoint_info *endpoint)
{
    const struct trace_header *header = file->header;
    char name[160];
    struct json_writer line;
    snprintf(name, sizeof name, "rank %u on host %s (process %d)", file->rank, endpoint->host, endpoint->process);
    trace_file_begin_event(&line, "process_name", NULL, "M", file->rank, 0);
    JSON_PUT_OBJECT(&line, "args", "name", name, "host", endpoint->host, "machine", endpoint->machine, "process",
                    endpoint->process, "events", header->count, "lost",
                    header->count > header->room ? header->count - header->room : 0, "clock_offset_us",
                    file->one_machine ? 0 : (double)header->offset[1] * 1e-3, "clock_uncertainty_us",
                    file->one_machine ? 0 : (double)header->uncertainty * 1e-3);
    json_close(&line);
    trace_file_put_line(file, &line);
}

static void put_events(struct trace_file_file *file, uint32_t rank, const struct endpoint_info *endpoint,
                       bool one_machine, const struct trace_header *header, const struct trace_event *events)
{
    file->rank = rank;
    file->header = header;
    file->one_machine = one_machine;
    file->tick = clock_tick_length(header->opened, header->closed);
    file->track_count = 0;
    trace_file_put_rank(file, endpoint);
    uint64_t kept = header->count < header->room ? header->count : header->room;
    for (uint64_t i = 0; i < kept; i++)
        if (events[i].kind == TRACE_OPERATION)
            trace_file_put_operation(file, &events[i]);
        else
            put_step(file, &events[i]);
}

static weft_status trace_file_begin_file(const weft_context *context, struct trace_file_file *file, const char *path,
                                         const struct trace_header *own, struct error *error)
{
    *file = (struct trace_file_file){
        .stream = fopen(path, "w"), .zero = context->log->opened.now, .reference = own->closed};
    if (!file->stream)
        return error_system(error, "cannot write the timeline to '%s'", path);
    file->tick_zero = clock_tick_length(own->opened, own->closed);
    fprintf(file->stream, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    return WEFT_OK;
}

static weft_status trace_file_end_file(struct trace_file_file *file, const char *path, struct error *error)
{
    fprintf(file->stream, "\n]}\n");
    bool bad = ferror(file->stream);
    if (fclose(file->stream) != 0 || bad)
        return error_system(error, "cannot write the timeline to '%s'", path);
    return WEFT_OK;
}

/* ---- all ranks ---- */

static uint64_t ring_bytes(const struct trace_header *header)
{
    return (header->count < header->room ? header->count : header->room) * sizeof(struct trace_event);
}

static bool ends_names(const struct trace_header *header)
{
    for (int i = 0; i < TRACE_ALGORITHMS; i++)
        if (!memchr(header->algorithms[i], 0, TRACE_NAME_BYTES))
            return false;
    return true;
}

static weft_status send_to_first(weft_context *context, const struct trace *trace)
{
    weft_comm *world = weft_world(context);
    uint64_t bytes = ring_bytes(&trace->header);
    weft_status status = weft_send(&trace->header, sizeof trace->header, WEFT_U8, 0, world);
    if (status == WEFT_OK && bytes)
        status = weft_send(trace->ring, bytes, WEFT_U8, 0, world);
    return status;
}

static weft_status receive_from(weft_context *context, uint32_t rank, struct trace_file_file *file, struct error *error)
{
    weft_comm *world = weft_world(context);
    struct trace_header header;
    weft_status status = weft_receive(&header, sizeof header, WEFT_U8, (int)rank, world);
    if (status != WEFT_OK)
        return status;
    if (header.room > TRACE_EVENTS_MOST || !ends_names(&header))
        return error_set(error, WEFT_ERROR_PEER,
                         "rank %u on host %s sent a malformed description of its events (%lu at most)", rank,
                         context->endpoints[rank].host, (unsigned long)header.room);
    uint64_t bytes = ring_bytes(&header);
    struct trace_event *events = bytes ? malloc(bytes) : NULL;
    if (bytes && !events)
        return error_memory(error, bytes, "the events of another rank");
    if (bytes)
        status = weft_receive(events, bytes, WEFT_U8, (int)rank, world);
    if (status == WEFT_OK && file)
        put_events(file, rank, &context->endpoints[rank],
                   strcmp(context->endpoints[rank].machine, context->endpoints[0].machine) == 0, &header, events);
    free(events);
    return status;
}

/* Rank 0: its own events, then all others', in rank order. After a write error the rest is still received. */
static weft_status trace_file_write_all(weft_context *context, const struct trace *trace, struct error *error)
{
    struct trace_file_file file;
    weft_status opened = trace_file_begin_file(context, &file, trace->path, &trace->header, error), status = WEFT_OK;
    if (opened == WEFT_OK)
        put_events(&file, 0, &context->endpoints[0], true, &trace->header, trace->ring);
    for (uint32_t r = 1; status == WEFT_OK && r < context->ranks; r++)
        if (context_rank_traces(context, r))
            status = receive_from(context, r, opened == WEFT_OK ? &file : NULL, error);
    weft_status closed = opened == WEFT_OK ? trace_file_end_file(&file, trace->path, error) : opened;
    return status != WEFT_OK ? status : closed;
}

static weft_status write_own(weft_context *context, const struct trace *trace, struct error *error)
{
    struct trace_file_file file;
    char path[4096];
    snprintf(path, sizeof path, "%s.rank-%u", trace->path, context->rank);
    weft_status status = trace_file_begin_file(context, &file, path, &trace->header, error);
    if (status != WEFT_OK)
        return status;
    put_events(&file, context->rank, &context->endpoints[context->rank], true, &trace->header, trace->ring);
    return trace_file_end_file(&file, path, error);
}

weft_status trace_file_write(weft_context *context, const struct trace *trace, bool failed, struct error *error)
{
    if (failed || !context_rank_traces(context, 0))
        return write_own(context, trace, error);
    weft_status status =
        context->rank == 0 ? trace_file_write_all(context, trace, error) : send_to_first(context, trace);
    if (status != WEFT_OK && error->status == WEFT_OK)
        error_set(error, status, "%s", weft_message(context));
    return status;
}
