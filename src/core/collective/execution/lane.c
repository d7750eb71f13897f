/* SPDX-License-Identifier: Apache-2.0 */
/* One lane of an operation: its steps until it waits. */
#include "core/collective/internal/execution.h"

#include "base/clock.h"
#include "core/collective/communicator/context.h"
#include "core/transport/copy.h"

/* The canonical tree over chunks of scratch, most often one from each rank. */
static void execution_local_reduce(struct weft_request *request, const struct lane *lane, const struct step *step,
                                   uint64_t count)
{
    const void **sources = request->comm->sources;
    void *target = execution_chunk(request, lane, step->target, step->target_chunk);
    for (uint32_t i = 0; i < step->operands; i++)
        sources[i] = execution_chunk(request, lane, step->source, step->source_chunk + i * step->stride);
    reduction_tree(request->comm->context->reduction, request->call->type, request->call->op.kind, &target, 1, sources,
                   step->operands, count, step->flags & STEP_FINISHES ? request->binding.finish : NULL,
                   request->binding.streaming);
}

static enum step_result execution_step_local(struct weft_request *request, struct lane *lane, const struct step *step)
{
    uint64_t bytes = execution_step_bytes(request, lane, step);
    if (!bytes)
        return STEP_COMPLETE;
    uint64_t count = bytes / request->binding.element;
    char *target = execution_chunk(request, lane, step->target, step->target_chunk);
    if (step->kind == STEP_REDUCE) {
        execution_local_reduce(request, lane, step, count);
        return STEP_COMPLETE;
    }
    if (step->kind == STEP_FINISH) {
        if (request->binding.finish)
            reduction_finish(request->comm->context->reduction, request->call->type, target, count,
                             request->binding.finish);
        return STEP_COMPLETE;
    }
    const char *source = execution_chunk(request, lane, step->source, step->source_chunk);
    if (step->flags & STEP_FINISHES && request->binding.finish) {
        void *targets[1] = {target};
        const void *sources[1] = {source};
        reduction_tree(request->comm->context->reduction, request->call->type, request->call->op.kind, targets, 1,
                       sources, 1, count, request->binding.finish, false);
    } else if (source != target) {
        copy_bytes(target, source, bytes, request->binding.streaming);
    }
    return STEP_COMPLETE;
}

static bool lane_may_step(const struct weft_request *request, const struct lane *lane, const struct step *step)
{
    if (!step->wait_steps || lane->iteration < step->wait_lag)
        return true;
    if (step->flags & STEP_WHERE_STAGED && !request->binding.stages)
        return true;
    const struct lane *other = &request->lanes[step->wait_lane];
    uint64_t iteration = lane->iteration - step->wait_lag;
    return other->iteration > iteration || (other->iteration == iteration && other->done >= step->wait_steps);
}

static enum step_result lane_take_step(struct weft_request *request, struct lane *lane, const struct step *step)
{
    switch ((enum step_kind)step->kind) {
    case STEP_SEND:
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE:
        return execution_step_message(request, lane, step);
    case STEP_COPY:
    case STEP_REDUCE:
    case STEP_FINISH:
        return execution_step_local(request, lane, step);
    default:
        return execution_step_shm(request, lane, step);
    }
}

bool execution_advance_lane(struct weft_request *request, uint32_t number, uint64_t *budget)
{
    const struct schedule *schedule = request->schedule;
    struct lane *lane = &request->lanes[number];
    const uint32_t first = schedule->lane_first[number], end = schedule->lane_first[number + 1];
    struct trace *trace = request->comm->context->trace;
    bool moved = false;
    while (lane->iteration < request->binding.iterations && *budget) {
        const struct step *step = &schedule->steps[lane->step];
        if (!lane_may_step(request, lane, step))
            return moved;
        if (trace && !lane->looked_at)
            lane->looked_at = clock_ticks();
        if (lane_take_step(request, lane, step) != STEP_COMPLETE)
            return moved;
        moved = true;
        uint64_t bytes = step->kind == STEP_SIGNAL || step->kind == STEP_AWAIT || step->kind == STEP_EXCHANGE
                             ? 0
                             : execution_step_bytes(request, lane, step);
        *budget = bytes < *budget ? *budget - bytes : 0;
        if (trace) {
            trace_step(trace, request, lane, step, bytes);
            lane->looked_at = 0;
        }
        request->steps_taken++;
        lane->looked = 0;
        lane->begun = false;
        lane->done++;
        if (++lane->step < end)
            continue;
        lane->step = first;
        lane->done = 0;
        if (++lane->iteration < request->binding.iterations)
            lane->segment = execution_segment(schedule, request->binding.block_bytes, lane->iteration);
        else
            request->lanes_left--;
    }
    return moved;
}
