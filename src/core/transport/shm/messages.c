/* SPDX-License-Identifier: Apache-2.0 */
/* The near transport's functions: what the table of a transport promises, and its life. */
#include "core/transport/shm/internal/messages.h"

#include "core/transport/copy.h"

#include <stdlib.h>

static weft_status messages_begin(struct transport *transport, struct transfer *transfer, struct error *error)
{
    struct near_messages *messages = (struct near_messages *)transport;
    if (!near_reaches(messages->near, transfer->peer))
        return error_set(error, WEFT_ERROR_STATE,
                         "rank %u does not share memory with rank %u: no message can go that way", transfer->peer,
                         messages->near->rank);
    return transfer->is_send ? near_begin_send(messages, transfer, error)
                             : near_begin_receive(messages, transfer, error);
}

static weft_status messages_progress(struct transport *transport, struct error *error)
{
    struct near_messages *messages = (struct near_messages *)transport;
    const struct near *near = messages->near;
    weft_status status = WEFT_OK;
    bool wake = false;
    for (uint32_t i = 0; i < near->known_count && status == WEFT_OK; i++) {
        struct near_dialogue *dialogue = near->known[i]->dialogue;
        if (!near->known[i]->connected)
            continue;
        const struct record *record = pipe_peek(&dialogue->in);
        if (record)
            status = near_take_records(messages, dialogue, record, error);
        if (status == WEFT_OK && (dialogue->first_notice || dialogue->first_waiting))
            status = near_flush(messages, dialogue, error);
        wake |= dialogue->wake;
    }
    if (messages->first_pulled && status == WEFT_OK)
        status = near_begin_staging(messages, error);
    if (messages->first_moving && status == WEFT_OK) {
        status = near_move_all(messages, error);
        wake = true;
    }
    if (!wake)
        return status;
    near_fence();
    for (uint32_t i = 0; i < near->known_count; i++)
        if (near->known[i]->dialogue->wake) {
            near->known[i]->dialogue->wake = false;
            near_wake(near->known[i]);
        }
    return status;
}

static void messages_cancel(struct transport *transport, struct transfer *transfer)
{
    struct near_messages *messages = (struct near_messages *)transport;
    if (transfer->state != TRANSFER_ACTIVE)
        return;
    struct near_dialogue *dialogue = dialogue_of(messages, transfer);
    struct traffic *traffic = traffic_of(transfer);
    struct channel *channel;
    switch (traffic->phase) {
    case PHASE_WAITING:
        transfer_unlink(&dialogue->first_waiting, &dialogue->last_waiting, transfer);
        break;
    case PHASE_PULLED:
        transfer_unlink(&messages->first_pulled, &messages->last_pulled, transfer);
        break;
    case PHASE_POSTED:
        channel = channel_find(&dialogue->channels, transfer->communicator, transfer->channel);
        if (channel)
            transfer_unlink(&channel->first_receive, &channel->last_receive, transfer);
        break;
    case PHASE_ASKED:
        if (heap_offset(messages->near->heap, transfer->data, transfer->bytes) != HEAP_NOWHERE)
            near_revoke(dialogue->peer);
        break;
    case PHASE_FILLING:
    case PHASE_WRITING:
    case PHASE_READING:
    case PHASE_DRAINING:
        transfer_unlink(&messages->first_moving, &messages->last_moving, transfer);
        break;
    default:
        break;
    }
    drop_handle(messages, transfer);
    traffic->phase = PHASE_NONE;
    transfer->state = TRANSFER_IDLE;
}

static void messages_counters(const struct transport *transport, struct transport_counters *counters)
{
    *counters = ((const struct near_messages *)transport)->counters;
}

/* Idle channels go by themselves when their table is full. */
static void messages_forget(struct transport *transport, uint32_t communicator)
{
}

static int messages_wait_descriptor(const struct transport *transport)
{
    return -1; /* the rank's doorbell */
}

static bool messages_may_sleep(struct transport *transport)
{
    struct near_messages *messages = (struct near_messages *)transport;
    const struct near *near = messages->near;
    for (uint32_t i = 0; i < near->known_count; i++) {
        struct near_dialogue *dialogue = near->known[i]->dialogue;
        if (!near->known[i]->connected)
            continue;
        if (pipe_peek(&dialogue->in))
            return false;
        if (dialogue->first_notice && pipe_has_room(&dialogue->out, 1))
            return false;
        if (dialogue->first_waiting && pipe_has_room(&dialogue->out, pipe_lines(EAGER_BYTES)))
            return false;
    }
    return !near_can_move(messages);
}

/* near_close() closes it. */
static void messages_close(struct transport *transport)
{
}

/* ---- life ---- */

weft_status near_dialogue_open(struct near_peer *peer, struct error *error)
{
    peer->dialogue = calloc(1, sizeof *peer->dialogue);
    if (!peer->dialogue)
        return no_memory(error);
    peer->dialogue->peer = peer;
    return WEFT_OK;
}

void near_dialogue_begin(struct near_peer *peer)
{
    peer->dialogue->out = (struct pipe_writer){.lines = peer->mine->pipe, .consumed = &peer->theirs->consumed};
    peer->dialogue->in = (struct pipe_reader){.lines = peer->theirs->pipe, .consumed = &peer->mine->consumed};
}

weft_status near_messages_open(struct near *near, struct near_messages **messages, struct error *error)
{
    struct near_messages *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory(error);
    made->transport = (struct transport){
        .name = "near",
        .begin = messages_begin,
        .progress = messages_progress,
        .cancel = messages_cancel,
        .counters = messages_counters,
        .forget = messages_forget,
        .wait_descriptor = messages_wait_descriptor,
        .may_sleep = messages_may_sleep,
        .close = messages_close,
    };
    made->near = near;
    made->streaming_from = copy_streaming_threshold() / 2; /* there are two copies */
    *messages = made;
    return WEFT_OK;
}

static void notices_free(struct notice *notice)
{
    while (notice) {
        struct notice *next = notice->next;
        free(notice);
        notice = next;
    }
}

void near_messages_close(struct near_messages *messages)
{
    if (!messages)
        return;
    for (uint32_t i = 0; i < messages->near->known_count; i++) {
        struct near_dialogue *dialogue = messages->near->known[i]->dialogue;
        channel_table_close(&dialogue->channels, &messages->early);
        notices_free(dialogue->first_notice);
    }
    near_stages_close(messages);
    notices_free(messages->spare_notices);
    early_pool_close(&messages->early);
    handle_table_close(&messages->handles);
    free(messages);
}

struct transport *near_messages_transport(struct near_messages *messages)
{
    return &messages->transport;
}
