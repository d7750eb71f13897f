/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that exchange messages, through whichever transport reaches the peer. */
#include "core/collective/internal/execution.h"

#include "base/hash.h"
#include "core/collective/communicator/context.h"

/* The transport is done with the lane's message. */
static void message_step_settle(struct weft_request *request, struct lane *lane)
{
    weft_context *context = request->comm->context;
    context->transfers[shm_reaches(context->shm, lane->transfer.peer) ? CONTEXT_SHM : CONTEXT_FABRIC]--;
    lane->transfer.state = TRANSFER_IDLE;
}

static enum step_result message_step_fail(struct weft_request *request, struct error *error)
{
    progress_fail(request->comm->context, error);
    return STEP_FAILED;
}

/* The operation's tag; with the message's type where ranks that exchange nothing may use different types. */
static uint64_t message_tag(const struct weft_request *request, uint64_t bytes)
{
    if (!bytes || !request->call->vectors || !collective_hides_sizes(request->schedule->collective))
        return request->tag;
    return hash_number(request->call->type, request->tag);
}

/* Begin the message of a step. */
static enum step_result message_step_begin(struct weft_request *request, struct lane *lane, const struct step *step)
{
    weft_comm *comm = request->comm;
    weft_context *context = comm->context;
    struct transfer *transfer = &lane->transfer;
    uint32_t peer = comm->world[step->peer];
    uint32_t way = shm_reaches(context->shm, peer) ? CONTEXT_SHM : CONTEXT_FABRIC;
    struct error error;
    error_clear(&error);
    transfer->peer = peer;
    transfer->communicator = comm_match_id(comm, request->call);
    transfer->channel = step->channel;
    transfer->is_send = step->kind == STEP_SEND;
    transfer->bytes = execution_step_bytes(request, lane, step);
    transfer->data = step->kind == STEP_RECEIVE_REDUCE ? request->binding.arrivals[lane - request->lanes]
                     : transfer->is_send ? execution_chunk(request, lane, step->source, step->source_chunk)
                                         : execution_chunk(request, lane, step->target, step->target_chunk);
    transfer->tag = message_tag(request, transfer->bytes);
    transfer->state = TRANSFER_IDLE;
    if (!context->transports[way]) {
        error_set(&error, WEFT_ERROR_NETWORK, "no transport reaches rank %u", peer);
        return message_step_fail(request, &error);
    }
    context->transfers[way]++;
    lane->begun = true;
    if (context->transports[way]->begin(context->transports[way], transfer, &error) != WEFT_OK) {
        context->transfers[way]--;
        return message_step_fail(request, &error);
    }
    return STEP_COMPLETE;
}

/* Combine the received data with the local data. */
static void message_step_reduce(struct weft_request *request, struct lane *lane, const struct step *step)
{
    const struct call *call = request->call;
    void *target = execution_chunk(request, lane, step->target, step->target_chunk);
    const void *here = execution_chunk(request, lane, step->source, step->source_chunk);
    const void *arrived = lane->transfer.data;
    const void *sources[2] = {here, arrived};
    if (step->flags & STEP_RECEIVED_FIRST) {
        sources[0] = arrived;
        sources[1] = here;
    }
    if (lane->transfer.bytes)
        reduction_tree(request->comm->context->reduction, call->type, call->op.kind, &target, 1, sources, 2,
                       lane->transfer.bytes / request->binding.element,
                       step->flags & STEP_FINISHES ? request->binding.finish : NULL, false);
}

enum step_result execution_step_message(struct weft_request *request, struct lane *lane, const struct step *step)
{
    struct transfer *transfer = &lane->transfer;
    if (!lane->begun && message_step_begin(request, lane, step) == STEP_FAILED)
        return STEP_FAILED;
    switch (transfer->state) {
    case TRANSFER_COMPLETE:
        message_step_settle(request, lane);
        if (step->kind == STEP_RECEIVE_REDUCE)
            message_step_reduce(request, lane, step);
        return STEP_COMPLETE;
    case TRANSFER_MISMATCH:
        message_step_settle(request, lane);
        diagnosis_mismatch(request, step->peer, transfer);
        return STEP_FAILED;
    case TRANSFER_FAILED: {
        struct error error;
        error_clear(&error);
        message_step_settle(request, lane);
        error_set(&error, WEFT_ERROR_NETWORK, "a message to or from rank %u failed in the transport", transfer->peer);
        return message_step_fail(request, &error);
    }
    default:
        request->awaited = transfer->peer + 1;
        return STEP_WAITS;
    }
}
