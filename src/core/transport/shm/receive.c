/* SPDX-License-Identifier: Apache-2.0 */
/* Records from a peer, and the receives that they belong to. A record is checked before anything is done with it. */
#include "core/transport/shm/internal/messages.h"

static weft_status record_malformed(const struct shm_connection *connection, const char *what, struct error *error)
{
    return error_set(
        error, WEFT_ERROR_DATA,
        "rank %u sent %s that is invalid through shared memory: a program error, or its memory was overwritten",
        connection->peer->rank, what);
}

static bool receive_matches(const struct transfer *receive, uint64_t tag, uint64_t bytes)
{
    return receive->tag == tag && receive->bytes == bytes;
}

/* An eager message and its receive have matched: it no longer counts against the sender's credit. */
static void connection_count_delivered(struct shm_connection *connection, uint64_t bytes)
{
    connection->eager_delivered += pipe_lines(bytes);
    atomic_store_explicit(&connection->peer->mine->delivered, connection->eager_delivered, memory_order_relaxed);
}

/* A receive matches an offer. */
static weft_status receive_accept_offer(struct shm_messages *messages, struct shm_connection *connection,
                                        struct transfer *receive, uint64_t tag, uint64_t bytes, uint64_t from,
                                        uint64_t place, struct error *error)
{
    struct traffic *traffic = traffic_of(receive);
    const struct shm_peer *peer = connection->peer;
    traffic->peer_handle = from;
    if (!receive_matches(receive, tag, bytes)) {
        transfer_mismatch(receive, tag, bytes);
        return shm_send_record(messages, receive, RECORD_REFUSED, from, 0, 0, error);
    }
    if (peer->same_process || place != HEAP_NOWHERE) {
        if (!peer->same_process && (place >= peer->heap_bytes || bytes > peer->heap_bytes - place))
            return record_malformed(connection, "the place of a message", error);
        traffic->place = peer->base + place;
        shm_move_begin(messages, receive, PHASE_READING);
        return WEFT_OK;
    }
    if (!(traffic->handle = handle_open(&messages->handles, receive)))
        return messages_no_memory(error);
    traffic->phase = PHASE_ASKED;
    return shm_send_record(messages, receive, RECORD_PULL, from, transfer_place(messages->shm, peer, receive), 0,
                           error);
}

/* The message came before its receive. */
static weft_status receive_take_early(struct shm_messages *messages, struct shm_connection *connection,
                                      struct transfer *receive, const struct early *early, struct error *error)
{
    if (!early->eager)
        return receive_accept_offer(messages, connection, receive, early->tag, early->bytes, early->from, early->place,
                                    error);
    connection_count_delivered(connection, early->bytes);
    if (!receive_matches(receive, early->tag, early->bytes)) {
        transfer_mismatch(receive, early->tag, early->bytes);
        return WEFT_OK;
    }
    if (early->bytes)
        memcpy(receive->data, early->payload, early->bytes);
    transfer_complete(messages, receive);
    return WEFT_OK;
}

weft_status shm_receive_begin(struct shm_messages *messages, struct transfer *receive, struct error *error)
{
    struct shm_connection *connection = connection_of(messages, receive);
    struct shm_channel *channel = channel_find(&connection->channels, receive->communicator, receive->channel);
    transfer_activate(receive);
    if (!channel)
        return messages_no_memory(error);
    struct early *early = channel_pop_early(channel);
    if (!early) {
        traffic_of(receive)->phase = PHASE_POSTED;
        channel_push_receive(channel, receive);
        return WEFT_OK;
    }
    weft_status status = receive_take_early(messages, connection, receive, early, error);
    early_give_back(&messages->early, early);
    connection_wake(connection);
    return status;
}

static weft_status record_take_eager(struct shm_messages *messages, struct shm_connection *connection,
                                     const struct record *record, struct error *error)
{
    if (record->bytes > EAGER_BYTES)
        return record_malformed(connection, "the size of a message", error);
    struct shm_channel *channel = channel_find(&connection->channels, record->communicator, record->channel);
    if (!channel)
        return messages_no_memory(error);
    struct transfer *receive = channel_pop_receive(channel);
    if (!receive) {
        struct early *early = early_take(&messages->early, record->bytes);
        if (!early)
            return messages_no_memory(error);
        early->tag = record->tag;
        early->bytes = record->bytes;
        early->eager = true;
        pipe_empty(&connection->in, early->payload, record->bytes);
        channel_push_early(channel, early);
        return WEFT_OK;
    }
    connection_count_delivered(connection, record->bytes);
    if (receive_matches(receive, record->tag, record->bytes)) {
        pipe_empty(&connection->in, receive->data, record->bytes);
        transfer_complete(messages, receive);
    } else {
        transfer_mismatch(receive, record->tag, record->bytes);
    }
    return WEFT_OK;
}

static weft_status record_take_offer(struct shm_messages *messages, struct shm_connection *connection,
                                     const struct record *record, struct error *error)
{
    struct shm_channel *channel = channel_find(&connection->channels, record->communicator, record->channel);
    if (!channel)
        return messages_no_memory(error);
    struct transfer *receive = channel_pop_receive(channel);
    if (receive)
        return receive_accept_offer(messages, connection, receive, record->tag, record->bytes, record->from,
                                    record->place, error);
    struct early *early = early_take(&messages->early, 0);
    if (!early)
        return messages_no_memory(error);
    early->tag = record->tag;
    early->bytes = record->bytes;
    early->eager = false;
    early->from = record->from;
    early->place = record->place;
    channel_push_early(channel, early);
    return WEFT_OK;
}

/* The transfer that a record addresses, if it still exists and waits for such a record. */
static struct transfer *record_transfer(const struct shm_messages *messages, const struct shm_connection *connection,
                                        const struct record *record, enum phase phase)
{
    struct transfer *transfer = handle_find(&messages->handles, record->to);
    return transfer && transfer->peer == connection->peer->rank && traffic_of(transfer)->phase == phase ? transfer
                                                                                                        : NULL;
}

static weft_status record_take_pull(struct shm_messages *messages, struct shm_connection *connection,
                                    const struct record *record, struct error *error)
{
    struct transfer *send = record_transfer(messages, connection, record, PHASE_OFFERED);
    if (!send)
        return WEFT_OK;
    struct traffic *traffic = traffic_of(send);
    const struct shm_peer *peer = connection->peer;
    traffic->peer_handle = record->from;
    if (record->place == HEAP_NOWHERE) {
        traffic->phase = PHASE_PULLED;
        transfer_list_push(&messages->first_pulled, &messages->last_pulled, send);
        return WEFT_OK;
    }
    if (record->place >= peer->heap_bytes || send->bytes > peer->heap_bytes - record->place)
        return record_malformed(connection, "the place of a buffer", error);
    traffic->place = peer->base + record->place;
    shm_move_begin(messages, send, PHASE_WRITING);
    return WEFT_OK;
}

static weft_status record_take_staged(struct shm_messages *messages, struct shm_connection *connection,
                                      const struct record *record, struct error *error)
{
    struct transfer *receive = record_transfer(messages, connection, record, PHASE_ASKED);
    if (!receive)
        return WEFT_OK;
    const struct shm_peer *peer = connection->peer;
    if (record->place >= peer->heap_bytes || sizeof(struct stage_area) > peer->heap_bytes - record->place ||
        record->place % 64)
        return record_malformed(connection, "the place of a stage", error);
    struct traffic *traffic = traffic_of(receive);
    traffic->place = peer->base + record->place;
    traffic->first_chunk = record->count;
    shm_move_begin(messages, receive, PHASE_DRAINING);
    return WEFT_OK;
}

static weft_status shm_receive_record_take(struct shm_messages *messages, struct shm_connection *connection,
                                           const struct record *record, struct error *error)
{
    struct transfer *transfer;
    switch (record->kind) {
    case RECORD_EAGER:
        return record_take_eager(messages, connection, record, error);
    case RECORD_OFFER:
        return record_take_offer(messages, connection, record, error);
    case RECORD_PULL:
        return record_take_pull(messages, connection, record, error);
    case RECORD_STAGED:
        return record_take_staged(messages, connection, record, error);
    case RECORD_TAKEN:
    case RECORD_REFUSED:
        transfer = record_transfer(messages, connection, record, PHASE_OFFERED);
        break;
    case RECORD_WRITTEN:
        transfer = record_transfer(messages, connection, record, PHASE_ASKED);
        break;
    default:
        return record_malformed(connection, "a record", error);
    }
    if (!transfer)
        return WEFT_OK;
    transfer_drop_handle(messages, transfer);
    if (record->kind == RECORD_REFUSED)
        transfer_mismatch(transfer, record->tag, record->bytes);
    else
        transfer_complete(messages, transfer);
    return WEFT_OK;
}

weft_status shm_receive_records(struct shm_messages *messages, struct shm_connection *connection,
                                const struct record *record, struct error *error)
{
    weft_status status;
    do {
        uint32_t lines = record->kind == RECORD_EAGER ? pipe_lines(record->bytes) : 1;
        status = shm_receive_record_take(messages, connection, record, error);
        if (pipe_take(&connection->in, lines))
            connection->wake = true;
    } while (status == WEFT_OK && (record = pipe_peek(&connection->in)));
    return status;
}
