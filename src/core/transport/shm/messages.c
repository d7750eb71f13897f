/* SPDX-License-Identifier: Apache-2.0 */
/* The shm transport's functions: the table of a transport, setup and teardown. */
#include "core/transport/shm/internal/messages.h"

#include "core/transport/copy.h"

#include <stdlib.h>

static weft_status messages_begin(struct transport *transport, struct transfer *transfer, struct error *error)
{
    struct shm_messages *messages = (struct shm_messages *)transport;
    if (!shm_reaches(messages->shm, transfer->peer))
        return error_set(error, WEFT_ERROR_STATE,
                         "rank %u does not share memory with rank %u, so the shm transport cannot reach it",
                         transfer->peer, messages->shm->rank);
    return transfer->is_send ? shm_send_begin(messages, transfer, error) : shm_receive_begin(messages, transfer, error);
}

static weft_status messages_progress(struct transport *transport, struct error *error)
{
    struct shm_messages *messages = (struct shm_messages *)transport;
    const struct shm *shm = messages->shm;
    weft_status status = WEFT_OK;
    bool wake = false;
    for (uint32_t i = 0; i < shm->known_count && status == WEFT_OK; i++) {
        struct shm_connection *connection = shm->known[i]->connection;
        if (!shm->known[i]->connected)
            continue;
        const struct record *record = pipe_peek(&connection->in);
        if (record)
            status = shm_receive_records(messages, connection, record, error);
        if (status == WEFT_OK && (connection->first_notice || connection->first_waiting))
            status = shm_send_flush(messages, connection, error);
        wake |= connection->wake;
    }
    if (messages->first_pulled && status == WEFT_OK)
        status = shm_stages_assign(messages, error);
    if (messages->first_moving && status == WEFT_OK) {
        status = shm_move_all(messages, error);
        wake = true;
    }
    if (!wake)
        return status;
    shm_fence();
    for (uint32_t i = 0; i < shm->known_count; i++)
        if (shm->known[i]->connection->wake) {
            shm->known[i]->connection->wake = false;
            shm_peer_wake(shm->known[i]);
        }
    return status;
}

static void messages_cancel(struct transport *transport, struct transfer *transfer)
{
    struct shm_messages *messages = (struct shm_messages *)transport;
    if (transfer->state != TRANSFER_ACTIVE)
        return;
    struct shm_connection *connection = connection_of(messages, transfer);
    struct traffic *traffic = traffic_of(transfer);
    struct shm_channel *channel;
    switch (traffic->phase) {
    case PHASE_WAITING:
        transfer_unlink(&connection->first_waiting, &connection->last_waiting, transfer);
        break;
    case PHASE_PULLED:
        transfer_unlink(&messages->first_pulled, &messages->last_pulled, transfer);
        break;
    case PHASE_POSTED:
        channel = channel_find(&connection->channels, transfer->communicator, transfer->channel);
        if (channel)
            transfer_unlink(&channel->first_receive, &channel->last_receive, transfer);
        break;
    case PHASE_ASKED:
        if (heap_offset(messages->shm->heap, transfer->data, transfer->bytes) != HEAP_NOWHERE)
            shm_revoke_writes(connection->peer);
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
    transfer_drop_handle(messages, transfer);
    traffic->phase = PHASE_NONE;
    transfer->state = TRANSFER_IDLE;
}

static void messages_counters(const struct transport *transport, struct transport_counters *counters)
{
    *counters = ((const struct shm_messages *)transport)->counters;
}

/* Idle channels are dropped when their table is full. */
static void messages_forget(struct transport *transport, uint32_t communicator)
{
}

static int messages_wait_descriptor(const struct transport *transport)
{
    return -1; /* the rank's doorbell */
}

static bool messages_may_sleep(struct transport *transport)
{
    struct shm_messages *messages = (struct shm_messages *)transport;
    const struct shm *shm = messages->shm;
    for (uint32_t i = 0; i < shm->known_count; i++) {
        struct shm_connection *connection = shm->known[i]->connection;
        if (!shm->known[i]->connected)
            continue;
        if (pipe_peek(&connection->in))
            return false;
        if (connection->first_notice && pipe_has_room(&connection->out, 1))
            return false;
        if (connection->first_waiting && pipe_has_room(&connection->out, pipe_lines(EAGER_BYTES)))
            return false;
    }
    return !shm_can_move(messages);
}

/* shm_destroy() closes it. */
static void messages_close(struct transport *transport)
{
}

/* ---- life ---- */

weft_status shm_connection_open(struct shm_peer *peer, struct error *error)
{
    peer->connection = calloc(1, sizeof *peer->connection);
    if (!peer->connection)
        return messages_no_memory(error);
    peer->connection->peer = peer;
    return WEFT_OK;
}

void shm_connection_begin(struct shm_peer *peer)
{
    peer->connection->out = (struct pipe_writer){.lines = peer->mine->pipe, .consumed = &peer->theirs->consumed};
    peer->connection->in = (struct pipe_reader){.lines = peer->theirs->pipe, .consumed = &peer->mine->consumed};
}

weft_status shm_messages_open(struct shm *shm, struct shm_messages **messages, struct error *error)
{
    struct shm_messages *made = calloc(1, sizeof *made);
    if (!made)
        return messages_no_memory(error);
    made->transport = (struct transport){
        .name = "shm",
        .begin = messages_begin,
        .progress = messages_progress,
        .cancel = messages_cancel,
        .counters = messages_counters,
        .forget = messages_forget,
        .wait_descriptor = messages_wait_descriptor,
        .may_sleep = messages_may_sleep,
        .close = messages_close,
    };
    made->shm = shm;
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

void shm_messages_close(struct shm_messages *messages)
{
    if (!messages)
        return;
    for (uint32_t i = 0; i < messages->shm->known_count; i++) {
        struct shm_connection *connection = messages->shm->known[i]->connection;
        channel_table_close(&connection->channels, &messages->early);
        notices_free(connection->first_notice);
    }
    shm_stages_close(messages);
    notices_free(messages->spare_notices);
    early_pool_close(&messages->early);
    handle_table_close(&messages->handles);
    free(messages);
}

struct transport *shm_messages_transport(struct shm_messages *messages)
{
    return &messages->transport;
}
