/* SPDX-License-Identifier: Apache-2.0 */
/* Recording. */
#include "core/collective/internal/trace.h"

#include "core/collective/communicator/context.h"
#include "core/collective/internal/execution.h"
#include "core/collective/internal/trace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET_TRIES 5
#define OFFSET_LIMIT 2.0 /* seconds for rank 0 to send its clock */

/* The offset of this rank's clock from rank 0's, from the quickest of several answers. A machine has one clock. */
static void compare_clocks(weft_context *context, unsigned index)
{
    struct trace_header *header = &context->trace->header;
    struct operation_log log;
    uint64_t best = UINT64_MAX;
    if (strcmp(context->endpoints[context->rank].machine, context->endpoints[0].machine) == 0)
        return;
    for (int i = 0; i < OFFSET_TRIES; i++) {
        uint64_t asked = clock_now();
        if (control_fetch_log(context->control, 0, &log, OFFSET_LIMIT, NULL) != WEFT_OK)
            break;
        uint64_t round_trip = clock_now() - asked;
        if (round_trip >= best)
            continue;
        best = round_trip;
        header->offset[index] = (int64_t)(asked + round_trip / 2 - log.beat.now);
    }
    if (best != UINT64_MAX && best / 2 > header->uncertainty)
        header->uncertainty = best / 2;
}

weft_status trace_open(weft_context *context, const char *path, uint64_t events, struct error *error)
{
    FILE *file = context->rank == 0 ? fopen(path, "w") : NULL;
    if (context->rank == 0 && !file)
        return error_system(error, "cannot write the timeline to '%s' (WEFT_TRACE)", path);
    if (file)
        fclose(file);
    struct trace *trace = calloc(1, sizeof *trace);
    struct trace_event *ring = trace ? calloc(events, sizeof *ring) : NULL;
    if (!ring) {
        free(trace);
        return error_memory(error, events * sizeof *ring, "the ring of a trace (WEFT_TRACE_EVENTS)");
    }
    memset(ring, 0, events * sizeof *ring); /* touch it now, not while operations are timed */
    trace->path = path;
    trace->ring = ring;
    trace->header.room = events;
    context->trace = trace;
    trace->header.opened = clock_timestamp();
    compare_clocks(context, 0);
    return WEFT_OK;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    free(trace->ring);
    free(trace);
}

weft_status trace_write(weft_context *context, struct error *error)
{
    struct trace *trace = context->trace;
    bool failed = context_status(context) != WEFT_OK || control_failed(context->control);
    while (clock_now() < trace->header.opened.now + 5000000)
        clock_pause(); /* so that ticks can be converted to nanoseconds */
    trace->header.closed = clock_timestamp();
    trace->header.offset[1] = trace->header.offset[0];
    if (!failed)
        compare_clocks(context, 1);
    context->trace = NULL;
    weft_status status = trace_file_write(context, trace, failed, error);
    trace_close(trace);
    return status;
}

/* ---- events ---- */

static struct trace_event *trace_next_event(struct trace *trace)
{
    return &trace->ring[trace->header.count++ % trace->header.room];
}

static uint8_t name_index(struct trace *trace, const char *name)
{
    for (uint8_t i = 0; i < TRACE_ALGORITHMS; i++) {
        if (trace->names[i] == name)
            return i;
        if (trace->names[i])
            continue;
        trace->names[i] = name;
        snprintf(trace->header.algorithms[i], TRACE_NAME_BYTES, "%s", name);
        return i;
    }
    return TRACE_ALGORITHMS - 1;
}

void trace_call(struct weft_request *request)
{
    request->marks = (struct trace_marks){.called = clock_ticks()};
}

void trace_begin(struct weft_request *request)
{
    request->marks.begun = clock_ticks();
}

void trace_advance(struct weft_request *request, bool moved)
{
    struct trace_marks *marks = &request->marks;
    if (!moved && !marks->still) {
        marks->still = clock_ticks();
    } else if (moved && marks->still) {
        marks->waited += clock_ticks() - marks->still;
        marks->still = 0;
    }
}

void trace_step(struct trace *trace, const struct weft_request *request, const struct lane *lane,
                const struct step *step, uint64_t bytes)
{
    if (step->kind == STEP_SIGNAL)
        return;
    *trace_next_event(trace) = (struct trace_event){
        .begin = lane->looked_at,
        .end = clock_ticks(),
        .called = lane->iteration,
        .bytes = bytes,
        .sequence = request->sequence,
        .communicator = comm_match_id(request->comm, request->call),
        .peer = step->peer,
        .kind = TRACE_STEP,
        .what = step->kind,
        .lane = (uint8_t)(lane - request->lanes),
    };
}

void trace_operation(struct trace *trace, struct weft_request *request)
{
    const struct call *call = request->call;
    const struct trace_marks *marks = &request->marks;
    bool sends = call->root == request->comm->rank;
    if (!marks->begun)
        return; /* cancelled before it began */
    trace_advance(request, true);
    *trace_next_event(trace) = (struct trace_event){
        .begin = marks->begun,
        .end = clock_ticks(),
        .called = marks->called,
        .waited = marks->waited,
        .bytes = request->binding.block_bytes,
        .sequence = request->sequence,
        .communicator = comm_match_id(request->comm, request->call),
        .peer = request->is_message && sends ? call->peer : call->root,
        .kind = TRACE_OPERATION,
        .what = call_code(call),
        .type = (uint8_t)call->type,
        .op = (uint8_t)(!request->is_message ? call->op.kind
                        : sends              ? MESSAGE_SENT
                                             : MESSAGE_RECEIVED),
        .algorithm = name_index(trace, request->schedule->algorithm),
    };
}
