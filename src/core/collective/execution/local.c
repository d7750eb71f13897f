/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that a rank takes alone. */
#include "core/collective/internal/execution.h"

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

enum step_result execution_step_local(struct weft_request *request, struct lane *lane, const struct step *step)
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
