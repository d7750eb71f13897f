/* SPDX-License-Identifier: Apache-2.0 */
/* Data that takes more than one turn: read in place, written in place, or through a stage. */
#include "base/clock.h"
#include "core/transport/copy.h"
#include "core/transport/shm/internal/messages.h"

#define TURN_BYTES (UINT64_C(256) << 10) /* bytes that one transfer moves before others have their turn */

void shm_move_begin(struct shm_messages *messages, struct transfer *transfer, enum phase phase)
{
    traffic_of(transfer)->phase = phase;
    transfer_list_push(&messages->first_moving, &messages->last_moving, transfer);
}

static uint64_t transfer_turn_bytes(const struct transfer *transfer, uint64_t done, uint64_t most)
{
    return transfer->bytes - done < most ? transfer->bytes - done : most;
}

static weft_status move_reading(struct shm_messages *messages, struct transfer *receive, struct error *error)
{
    struct traffic *traffic = traffic_of(receive);
    uint64_t bytes = transfer_turn_bytes(receive, traffic->done, TURN_BYTES);
    copy_bytes((char *)receive->data + traffic->done, traffic->place + traffic->done, bytes,
               receive->bytes >= messages->streaming_from);
    traffic->done += bytes;
    if (traffic->done < receive->bytes)
        return WEFT_OK;
    weft_status status = shm_send_record(messages, receive, RECORD_TAKEN, traffic->peer_handle, 0, 0, error);
    transfer_complete(messages, receive);
    return status;
}

/*
 * The receiver may cancel while this rank stores into its buffer: it sets `revoked`, then waits while `writing` is set.
 */
static weft_status move_writing(struct shm_messages *messages, struct transfer *send, struct error *error)
{
    struct traffic *traffic = traffic_of(send);
    struct shm_peer *peer = messages->shm->peers[send->peer];
    uint64_t bytes = transfer_turn_bytes(send, traffic->done, TURN_BYTES);
    atomic_store_explicit(&peer->mine->writing, 1, memory_order_relaxed);
    shm_fence();
    bool revoked = atomic_load_explicit(&peer->theirs->revoked, memory_order_acquire);
    if (!revoked)
        copy_bytes(traffic->place + traffic->done, (char *)send->data + traffic->done, bytes,
                   send->bytes >= messages->streaming_from);
    atomic_store_explicit(&peer->mine->writing, 0, memory_order_release);
    if (revoked)
        /* The peer has seen a failure; the control plane will report the cause to this rank, too. */
        return error_set(error, WEFT_ERROR_NETWORK, "rank %u no longer accepts the message that it asked for",
                         peer->rank);
    traffic->done += bytes;
    if (traffic->done < send->bytes)
        return WEFT_OK;
    weft_status status = shm_send_record(messages, send, RECORD_WRITTEN, traffic->peer_handle, 0, 0, error);
    transfer_drop_handle(messages, send);
    transfer_complete(messages, send);
    return status;
}

/*
 * No store into a canceled receive's buffer may follow; see move_writing(). A peer that is stopped in the middle of a
 * store for longer than this cannot be handled.
 */
void shm_revoke_writes(const struct shm_peer *peer)
{
    enum { PAUSES = 10 * 1000 * 1000 };
    atomic_store_explicit(&peer->mine->revoked, 1, memory_order_release);
    shm_fence();
    for (uint32_t i = 0; i < PAUSES && atomic_load_explicit(&peer->theirs->writing, memory_order_acquire); i++)
        clock_pause();
}

static void move_filling(struct shm_messages *messages, struct transfer *send)
{
    struct traffic *traffic = traffic_of(send);
    struct shm_stage *stage = traffic->stage;
    uint64_t taken = atomic_load_explicit(&stage->area->taken, memory_order_acquire);
    while (traffic->done < send->bytes && stage->filled - taken < STAGE_CHUNKS) {
        uint64_t bytes = transfer_turn_bytes(send, traffic->done, STAGE_CHUNK);
        memcpy(stage->area->chunks[stage->filled % STAGE_CHUNKS], (char *)send->data + traffic->done, bytes);
        atomic_store_explicit(&stage->area->filled, ++stage->filled, memory_order_release);
        traffic->done += bytes;
        connection_of(messages, send)->wake = true;
    }
    if (traffic->done < send->bytes)
        return;
    stage->user = NULL; /* free again when the receiver has taken all */
    transfer_drop_handle(messages, send);
    transfer_complete(messages, send);
}

static void move_draining(struct shm_messages *messages, struct transfer *receive)
{
    struct traffic *traffic = traffic_of(receive);
    struct stage_area *area = (struct stage_area *)traffic->place;
    uint64_t taken = traffic->first_chunk + traffic->done / STAGE_CHUNK;
    uint64_t filled = atomic_load_explicit(&area->filled, memory_order_acquire);
    while (taken < filled && traffic->done < receive->bytes) {
        uint64_t bytes = transfer_turn_bytes(receive, traffic->done, STAGE_CHUNK);
        copy_bytes((char *)receive->data + traffic->done, area->chunks[taken % STAGE_CHUNKS], bytes,
                   receive->bytes >= messages->streaming_from);
        atomic_store_explicit(&area->taken, ++taken, memory_order_release);
        traffic->done += bytes;
        connection_of(messages, receive)->wake = true;
    }
    if (traffic->done < receive->bytes)
        return;
    transfer_drop_handle(messages, receive);
    transfer_complete(messages, receive);
}

static weft_status transfer_move(struct shm_messages *messages, struct transfer *transfer, struct error *error)
{
    switch (traffic_of(transfer)->phase) {
    case PHASE_READING:
        return move_reading(messages, transfer, error);
    case PHASE_WRITING:
        return move_writing(messages, transfer, error);
    case PHASE_FILLING:
        move_filling(messages, transfer);
        return WEFT_OK;
    default:
        move_draining(messages, transfer);
        return WEFT_OK;
    }
}

weft_status shm_move_all(struct shm_messages *messages, struct error *error)
{
    weft_status status = WEFT_OK;
    struct transfer *moving = messages->first_moving;
    messages->first_moving = messages->last_moving = NULL;
    while (moving) {
        struct transfer *next = moving->next;
        if (status == WEFT_OK)
            status = transfer_move(messages, moving, error);
        if (moving->state == TRANSFER_ACTIVE)
            transfer_list_push(&messages->first_moving, &messages->last_moving, moving);
        moving = next;
    }
    return status;
}

static bool stage_is_free(const struct shm_stage *stage)
{
    return !stage->user &&
           (!stage->area || atomic_load_explicit(&stage->area->taken, memory_order_acquire) == stage->filled);
}

static struct shm_stage *stage_find(struct shm_messages *messages)
{
    struct shm_stage *unused = NULL;
    for (struct shm_stage *stage = messages->stages; stage < messages->stages + STAGES; stage++) {
        if (!stage_is_free(stage))
            continue;
        if (stage->area)
            return stage;
        if (!unused)
            unused = stage;
    }
    return unused;
}

weft_status shm_stages_assign(struct shm_messages *messages, struct error *error)
{
    weft_status status = WEFT_OK;
    struct heap *heap = messages->shm->heap;
    struct shm_stage *stage;
    while (messages->first_pulled && status == WEFT_OK && (stage = stage_find(messages))) {
        struct transfer *send = messages->first_pulled;
        struct traffic *traffic = traffic_of(send);
        if (!stage->area) {
            void *area = NULL;
            status = heap_alloc(heap, sizeof *stage->area, &area, error);
            stage->area = area;
            if (status != WEFT_OK)
                break;
        }
        if (!(messages->first_pulled = send->next))
            messages->last_pulled = NULL;
        stage->user = send;
        traffic->stage = stage;
        status = shm_send_record(messages, send, RECORD_STAGED, traffic->peer_handle,
                                 heap_offset(heap, stage->area, sizeof *stage->area), stage->filled, error);
        shm_move_begin(messages, send, PHASE_FILLING);
    }
    return status;
}

/* Whether a transfer of the moving list can move now. */
static bool transfer_can_move(struct transfer *transfer)
{
    const struct traffic *traffic = traffic_of(transfer);
    const struct stage_area *area;
    switch (traffic->phase) {
    case PHASE_FILLING:
        area = traffic->stage->area;
        return traffic->stage->filled - atomic_load_explicit(&area->taken, memory_order_acquire) < STAGE_CHUNKS;
    case PHASE_DRAINING:
        area = (const struct stage_area *)traffic->place;
        return atomic_load_explicit(&area->filled, memory_order_acquire) >
               traffic->first_chunk + traffic->done / STAGE_CHUNK;
    default:
        return true;
    }
}

bool shm_can_move(struct shm_messages *messages)
{
    for (struct transfer *moving = messages->first_moving; moving; moving = moving->next)
        if (transfer_can_move(moving))
            return true;
    return messages->first_pulled && stage_find(messages);
}

void shm_stages_close(struct shm_messages *messages)
{
    for (struct shm_stage *stage = messages->stages; stage < messages->stages + STAGES; stage++)
        if (stage->area && stage_is_free(stage))
            heap_free(messages->shm->heap, stage->area);
}
