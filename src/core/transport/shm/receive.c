/* SPDX-License-Identifier: Apache-2.0 */
/* Records from a peer, and the receives that they belong to. A record is checked before anything is done with it. */
#include "core/transport/shm/internal/messages.h"

static weft_status nonsense(const struct near_dialogue *dialogue, const char *what, struct error *error)
{
    return error_set(
        error, WEFT_ERROR_DATA,
        "rank %u sent %s that makes no sense through shared memory: a program error, or its memory was overwritten",
        dialogue->peer->rank, what);
}

static bool agrees(const struct transfer *receive, uint64_t tag, uint64_t bytes)
{
    return receive->tag == tag && receive->bytes == bytes;
}

/* An eager message has found its receive, or the receive its message: it need not be counted against the sender any
 * more. */
static void count_delivered(struct near_dialogue *dialogue, uint64_t bytes)
{
    dialogue->eager_delivered += pipe_lines(bytes);
    atomic_store_explicit(&dialogue->peer->mine->delivered, dialogue->eager_delivered, memory_order_relaxed);
}

/* A receive has met an offer. */
static weft_status accept_offer(struct near_messages *messages, struct near_dialogue *dialogue,
                                struct transfer *receive, uint64_t tag, uint64_t bytes, uint64_t from, uint64_t place,
                                struct error *error)
{
    struct traffic *traffic = traffic_of(receive);
    const struct near_peer *peer = dialogue->peer;
    traffic->peer_handle = from;
    if (!agrees(receive, tag, bytes)) {
        mismatch(receive, tag, bytes);
        return near_answer(messages, receive, RECORD_REFUSED, from, 0, 0, error);
    }
    if (peer->same_process || place != HEAP_NOWHERE) {
        if (!peer->same_process && (place >= peer->heap_bytes || bytes > peer->heap_bytes - place))
            return nonsense(dialogue, "the place of a message", error);
        traffic->place = peer->base + place;
        near_begin_moving(messages, receive, PHASE_READING);
        return WEFT_OK;
    }
    if (!(traffic->handle = handle_open(&messages->handles, receive)))
        return no_memory(error);
    traffic->phase = PHASE_ASKED;
    return near_answer(messages, receive, RECORD_PULL, from, place_of(messages->near, peer, receive), 0, error);
}

/* The message came before its receive. */
static weft_status meet_early(struct near_messages *messages, struct near_dialogue *dialogue, struct transfer *receive,
                              const struct early *early, struct error *error)
{
    if (!early->eager)
        return accept_offer(messages, dialogue, receive, early->tag, early->bytes, early->from, early->place, error);
    count_delivered(dialogue, early->bytes);
    if (!agrees(receive, early->tag, early->bytes)) {
        mismatch(receive, early->tag, early->bytes);
        return WEFT_OK;
    }
    if (early->bytes)
        memcpy(receive->data, early->payload, early->bytes);
    complete(messages, receive);
    return WEFT_OK;
}

weft_status near_begin_receive(struct near_messages *messages, struct transfer *receive, struct error *error)
{
    struct near_dialogue *dialogue = dialogue_of(messages, receive);
    struct channel *channel = channel_find(&dialogue->channels, receive->communicator, receive->channel);
    make_active(receive);
    if (!channel)
        return no_memory(error);
    struct early *early = channel_pop_early(channel);
    if (!early) {
        traffic_of(receive)->phase = PHASE_POSTED;
        channel_push_receive(channel, receive);
        return WEFT_OK;
    }
    weft_status status = meet_early(messages, dialogue, receive, early, error);
    early_give_back(&messages->early, early);
    wake_one(dialogue);
    return status;
}

static weft_status take_eager(struct near_messages *messages, struct near_dialogue *dialogue,
                              const struct record *record, struct error *error)
{
    if (record->bytes > EAGER_BYTES)
        return nonsense(dialogue, "the size of a message", error);
    struct channel *channel = channel_find(&dialogue->channels, record->communicator, record->channel);
    if (!channel)
        return no_memory(error);
    struct transfer *receive = channel_pop_receive(channel);
    if (!receive) {
        struct early *early = early_take(&messages->early, record->bytes);
        if (!early)
            return no_memory(error);
        early->tag = record->tag;
        early->bytes = record->bytes;
        early->eager = true;
        pipe_empty(&dialogue->in, early->payload, record->bytes);
        channel_push_early(channel, early);
        return WEFT_OK;
    }
    count_delivered(dialogue, record->bytes);
    if (agrees(receive, record->tag, record->bytes)) {
        pipe_empty(&dialogue->in, receive->data, record->bytes);
        complete(messages, receive);
    } else {
        mismatch(receive, record->tag, record->bytes);
    }
    return WEFT_OK;
}

static weft_status take_offer(struct near_messages *messages, struct near_dialogue *dialogue,
                              const struct record *record, struct error *error)
{
    struct channel *channel = channel_find(&dialogue->channels, record->communicator, record->channel);
    if (!channel)
        return no_memory(error);
    struct transfer *receive = channel_pop_receive(channel);
    if (receive)
        return accept_offer(messages, dialogue, receive, record->tag, record->bytes, record->from, record->place,
                            error);
    struct early *early = early_take(&messages->early, 0);
    if (!early)
        return no_memory(error);
    early->tag = record->tag;
    early->bytes = record->bytes;
    early->eager = false;
    early->from = record->from;
    early->place = record->place;
    channel_push_early(channel, early);
    return WEFT_OK;
}

/* The transfer that a record speaks to, if it is still there and waits for such a record. */
static struct transfer *addressee(const struct near_messages *messages, const struct near_dialogue *dialogue,
                                  const struct record *record, enum phase phase)
{
    struct transfer *transfer = handle_find(&messages->handles, record->to);
    return transfer && transfer->peer == dialogue->peer->rank && traffic_of(transfer)->phase == phase ? transfer : NULL;
}

static weft_status take_pull(struct near_messages *messages, struct near_dialogue *dialogue,
                             const struct record *record, struct error *error)
{
    struct transfer *send = addressee(messages, dialogue, record, PHASE_OFFERED);
    if (!send)
        return WEFT_OK;
    struct traffic *traffic = traffic_of(send);
    const struct near_peer *peer = dialogue->peer;
    traffic->peer_handle = record->from;
    if (record->place == HEAP_NOWHERE) {
        traffic->phase = PHASE_PULLED;
        list_push(&messages->first_pulled, &messages->last_pulled, send);
        return WEFT_OK;
    }
    if (record->place >= peer->heap_bytes || send->bytes > peer->heap_bytes - record->place)
        return nonsense(dialogue, "the place of a buffer", error);
    traffic->place = peer->base + record->place;
    near_begin_moving(messages, send, PHASE_WRITING);
    return WEFT_OK;
}

static weft_status take_staged(struct near_messages *messages, struct near_dialogue *dialogue,
                               const struct record *record, struct error *error)
{
    struct transfer *receive = addressee(messages, dialogue, record, PHASE_ASKED);
    if (!receive)
        return WEFT_OK;
    const struct near_peer *peer = dialogue->peer;
    if (record->place >= peer->heap_bytes || sizeof(struct stage_area) > peer->heap_bytes - record->place ||
        record->place % 64)
        return nonsense(dialogue, "the place of a stage", error);
    struct traffic *traffic = traffic_of(receive);
    traffic->place = peer->base + record->place;
    traffic->first_chunk = record->count;
    near_begin_moving(messages, receive, PHASE_DRAINING);
    return WEFT_OK;
}

static weft_status take_record(struct near_messages *messages, struct near_dialogue *dialogue,
                               const struct record *record, struct error *error)
{
    struct transfer *transfer;
    switch (record->kind) {
    case RECORD_EAGER:
        return take_eager(messages, dialogue, record, error);
    case RECORD_OFFER:
        return take_offer(messages, dialogue, record, error);
    case RECORD_PULL:
        return take_pull(messages, dialogue, record, error);
    case RECORD_STAGED:
        return take_staged(messages, dialogue, record, error);
    case RECORD_TAKEN:
    case RECORD_REFUSED:
        transfer = addressee(messages, dialogue, record, PHASE_OFFERED);
        break;
    case RECORD_WRITTEN:
        transfer = addressee(messages, dialogue, record, PHASE_ASKED);
        break;
    default:
        return nonsense(dialogue, "a record", error);
    }
    if (!transfer)
        return WEFT_OK;
    drop_handle(messages, transfer);
    if (record->kind == RECORD_REFUSED)
        mismatch(transfer, record->tag, record->bytes);
    else
        complete(messages, transfer);
    return WEFT_OK;
}

weft_status near_take_records(struct near_messages *messages, struct near_dialogue *dialogue,
                              const struct record *record, struct error *error)
{
    weft_status status;
    do {
        uint32_t lines = record->kind == RECORD_EAGER ? pipe_lines(record->bytes) : 1;
        status = take_record(messages, dialogue, record, error);
        if (pipe_take(&dialogue->in, lines))
            dialogue->wake = true;
    } while (status == WEFT_OK && (record = pipe_peek(&dialogue->in)));
    return status;
}
