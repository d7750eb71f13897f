/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through shared memory. How one travels depends on its size and on where its two ends lie:
 *
 *   up to EAGER_BYTES     in the pipe itself (RECORD_EAGER); the send is complete at once
 *   sender's in its heap  OFFER with its place; the receiver copies it from there, then TAKEN          one copy
 *   only receiver's is    OFFER; PULL with the receiver's place; the sender copies it there; WRITTEN   one copy
 *   neither               OFFER; PULL; STAGED; through a stage of a few chunks in the sender's heap    two copies,
 * overlapped
 *
 * Ranks of one process read each other's memory wherever it lies. A sender whose eager messages find no receive for
 * long offers even small ones, so what a receiver must keep is bounded by EAGER_CREDIT lines and, beyond that, by what
 * its peers have in flight.
 *
 * No resource that is limited (stages) is taken before the receive is known, so no channel can block another: whoever
 * holds a stage has a receiver that empties it. Records that find no room in the pipe wait in a list here.
 */
#include "base/clock.h"
#include "transport/copy.h"
#include "transport/near_internal.h"
#include "transport/near_match.h"
#include "transport/near_pipe.h"

#include <stdlib.h>

#define EAGER_BYTES  2048u
#define EAGER_CREDIT 16384u                /* lines: 1 MiB */
#define BITE         (UINT64_C(256) << 10) /* bytes that one transfer moves before others have their turn */
#define STAGES       8u
#define STAGE_CHUNKS 4u
#define STAGE_CHUNK  (UINT64_C(64) << 10)

/* In the sender's heap. Counts only grow, from one message to the next. */
struct stage_area {
    _Alignas(64) _Atomic uint64_t filled; /* chunks, by the sender */
    _Alignas(64) _Atomic uint64_t taken;  /* chunks, by the receiver */
    _Alignas(64) char chunks[STAGE_CHUNKS][STAGE_CHUNK];
};

struct stage {
    struct stage_area *area;
    struct transfer *user;
    uint64_t filled;
};

enum phase {
    PHASE_NONE,
    PHASE_WAITING,  /* send: for room in the pipe */
    PHASE_OFFERED,  /* send: for the receiver's answer */
    PHASE_PULLED,   /* send: for a stage */
    PHASE_FILLING,  /* send: into a stage */
    PHASE_WRITING,  /* send: into the receiver's buffer */
    PHASE_POSTED,   /* receive: for a message */
    PHASE_ASKED,    /* receive: for the sender's WRITTEN or STAGED */
    PHASE_READING,  /* receive: from the sender's buffer */
    PHASE_DRAINING, /* receive: from a stage */
};

/* What the transport keeps in a transfer's private words. */
struct __attribute__((may_alias)) traffic {
    uint64_t handle;      /* ours; 0: none */
    uint64_t peer_handle; /* the other side's */
    char *place;          /* the other side's data, or the stage's area, here */
    struct stage *stage;  /* PHASE_FILLING */
    uint64_t done;        /* bytes moved */
    uint64_t first_chunk; /* PHASE_DRAINING: the stage's count at the message's beginning */
    enum phase phase;
};
_Static_assert(sizeof(struct traffic) <= sizeof((struct transfer *)0)->private_words, "must fit");

/* A record that waits for room in the pipe. */
struct notice {
    struct notice *next;
    struct record record;
};

struct near_dialogue {
    struct near_peer *peer;
    struct pipe_writer out;
    struct pipe_reader in;
    struct channel_table channels;
    struct notice *first_notice, *last_notice;
    struct transfer *first_waiting, *last_waiting; /* sends */
    uint64_t eager_sent, eager_seen;               /* lines sent, and known to have been delivered */
    uint64_t eager_delivered;                      /* lines received */
    bool wake;                                     /* something was stored that the peer may wait for */
};

struct near_messages {
    struct transport transport; /* first */
    struct near *near;
    struct transport_counters counters;
    struct handle_table handles;
    struct early_pool early;
    struct notice *spare_notices;
    struct transfer *first_moving, *last_moving;
    struct transfer *first_pulled, *last_pulled;
    struct stage stages[STAGES];
    uint64_t streaming_from;
};

static struct traffic *traffic_of(struct transfer *transfer)
{
    return (struct traffic *)transfer->private_words;
}

static struct near_dialogue *dialogue_of(const struct near_messages *messages, const struct transfer *transfer)
{
    return messages->near->peers[transfer->peer]->dialogue;
}

static void list_push(struct transfer **first, struct transfer **last, struct transfer *transfer)
{
    transfer->next = NULL;
    if (*last)
        (*last)->next = transfer;
    else
        *first = transfer;
    *last = transfer;
}

static void complete(struct near_messages *messages, struct transfer *transfer)
{
    struct transport_counters *counters = &messages->counters;
    traffic_of(transfer)->phase = PHASE_NONE;
    if (transfer->is_send) {
        counters->messages_sent++;
        counters->bytes_sent += transfer->bytes;
    } else {
        counters->messages_received++;
        counters->bytes_received += transfer->bytes;
    }
    transfer->state = TRANSFER_COMPLETE;
}

static void mismatch(struct transfer *transfer, uint64_t peer_tag, uint64_t peer_bytes)
{
    traffic_of(transfer)->phase = PHASE_NONE;
    transfer->peer_tag = peer_tag;
    transfer->peer_bytes = peer_bytes;
    transfer->state = TRANSFER_MISMATCH;
}

static void drop_handle(struct near_messages *messages, struct transfer *transfer)
{
    struct traffic *traffic = traffic_of(transfer);
    if (traffic->handle)
        handle_close(&messages->handles, traffic->handle);
    traffic->handle = 0;
}

static weft_status no_memory(struct error *error)
{
    return error_memory(error, 4096, "messages between ranks of this machine");
}

static weft_status nonsense(const struct near_dialogue *dialogue, const char *what, struct error *error)
{
    return error_set(
        error, WEFT_ERROR_DATA,
        "rank %u sent %s that makes no sense through shared memory: a program error, or its memory was overwritten",
        dialogue->peer->rank, what);
}

/* ---- sending records ---- */

static void write_record(struct near_dialogue *dialogue, const struct record *record)
{
    struct record *line = pipe_next(&dialogue->out);
    memcpy((char *)line + sizeof line->stamp, (const char *)record + sizeof line->stamp,
           sizeof *line - sizeof line->stamp);
    pipe_publish(&dialogue->out, 1);
    dialogue->wake = true;
}

/* Send a record of one line, now or when there is room. */
static weft_status post(struct near_messages *messages, struct near_dialogue *dialogue, const struct record *record,
                        struct error *error)
{
    if (!dialogue->first_notice && pipe_has_room(&dialogue->out, 1)) {
        write_record(dialogue, record);
        return WEFT_OK;
    }
    struct notice *notice = messages->spare_notices;
    if (notice)
        messages->spare_notices = notice->next;
    else if (!(notice = aligned_alloc(_Alignof(struct notice), sizeof *notice)))
        return no_memory(error);
    notice->next = NULL;
    memcpy(&notice->record, record, sizeof *record);
    if (dialogue->last_notice)
        dialogue->last_notice->next = notice;
    else
        dialogue->first_notice = notice;
    dialogue->last_notice = notice;
    return WEFT_OK;
}

static weft_status answer(struct near_messages *messages, const struct transfer *transfer, enum record_kind kind,
                          uint64_t to, uint64_t place, uint64_t count, struct error *error)
{
    struct record record = {
        .tag = transfer->tag,
        .bytes = transfer->bytes,
        .communicator = transfer->communicator,
        .channel = transfer->channel,
        .kind = (uint8_t)kind,
        .to = to,
        .from = traffic_of((struct transfer *)transfer)->handle,
        .place = place,
        .count = count,
    };
    return post(messages, dialogue_of(messages, transfer), &record, error);
}

static bool eager_is_allowed(struct near_dialogue *dialogue, const struct transfer *send)
{
    if (send->bytes > EAGER_BYTES)
        return false;
    if (dialogue->eager_sent - dialogue->eager_seen <= EAGER_CREDIT)
        return true;
    dialogue->eager_seen = atomic_load_explicit(&dialogue->peer->theirs->delivered, memory_order_relaxed);
    return dialogue->eager_sent - dialogue->eager_seen <= EAGER_CREDIT;
}

/* Where the peer can read or write this transfer's data: an offset in this rank's heap, or HEAP_NOWHERE. */
static uint64_t place_of(const struct near *near, const struct near_peer *peer, const struct transfer *transfer)
{
    if (peer->same_process)
        return (uint64_t)((uintptr_t)transfer->data - (uintptr_t)peer->base);
    return heap_offset(near->heap, transfer->data, transfer->bytes);
}

/* Put a send's first record into the pipe; false when there is no room now. */
static bool send_now(struct near_messages *messages, struct near_dialogue *dialogue, struct transfer *send,
                     weft_status *status, struct error *error)
{
    struct traffic *traffic = traffic_of(send);
    bool eager = eager_is_allowed(dialogue, send);
    uint32_t lines = eager ? pipe_lines(send->bytes) : 1;
    if (!pipe_has_room(&dialogue->out, lines))
        return false;
    if (!eager && !(traffic->handle = handle_open(&messages->handles, send))) {
        *status = no_memory(error);
        return true;
    }
    struct record *record = pipe_next(&dialogue->out);
    record->tag = send->tag;
    record->bytes = send->bytes;
    record->communicator = send->communicator;
    record->channel = send->channel;
    if (eager) {
        record->kind = RECORD_EAGER;
        pipe_fill(&dialogue->out, send->data, send->bytes);
    } else {
        record->kind = RECORD_OFFER;
        record->from = traffic->handle;
        record->place = place_of(messages->near, dialogue->peer, send);
        traffic->phase = PHASE_OFFERED;
    }
    pipe_publish(&dialogue->out, lines);
    dialogue->wake = true;
    if (eager) {
        dialogue->eager_sent += lines;
        complete(messages, send);
    }
    return true;
}

/* Send what has waited for room, in order. */
static weft_status flush(struct near_messages *messages, struct near_dialogue *dialogue, struct error *error)
{
    weft_status status = WEFT_OK;
    while (dialogue->first_notice && pipe_has_room(&dialogue->out, 1)) {
        struct notice *notice = dialogue->first_notice;
        write_record(dialogue, &notice->record);
        if (!(dialogue->first_notice = notice->next))
            dialogue->last_notice = NULL;
        notice->next = messages->spare_notices;
        messages->spare_notices = notice;
    }
    while (dialogue->first_waiting && status == WEFT_OK) {
        struct transfer *send = dialogue->first_waiting, *next = send->next;
        if (!send_now(messages, dialogue, send, &status, error))
            break;
        if (!(dialogue->first_waiting = next))
            dialogue->last_waiting = NULL;
    }
    return status;
}

/* ---- moving data
 * ------------------------------------------------------------------------------------------------------ */

static void begin_moving(struct near_messages *messages, struct transfer *transfer, enum phase phase)
{
    traffic_of(transfer)->phase = phase;
    list_push(&messages->first_moving, &messages->last_moving, transfer);
}

static uint64_t next_bite(const struct transfer *transfer, uint64_t done, uint64_t most)
{
    return transfer->bytes - done < most ? transfer->bytes - done : most;
}

static weft_status move_reading(struct near_messages *messages, struct transfer *receive, struct error *error)
{
    struct traffic *traffic = traffic_of(receive);
    uint64_t bytes = next_bite(receive, traffic->done, BITE);
    copy_bytes((char *)receive->data + traffic->done, traffic->place + traffic->done, bytes,
               receive->bytes >= messages->streaming_from);
    traffic->done += bytes;
    if (traffic->done < receive->bytes)
        return WEFT_OK;
    weft_status status = answer(messages, receive, RECORD_TAKEN, traffic->peer_handle, 0, 0, error);
    complete(messages, receive);
    return status;
}

/* The receiver may cancel while we store into its buffer: it sets `revoked`, then waits while `writing` is set. */
static weft_status move_writing(struct near_messages *messages, struct transfer *send, struct error *error)
{
    struct traffic *traffic = traffic_of(send);
    struct near_peer *peer = messages->near->peers[send->peer];
    uint64_t bytes = next_bite(send, traffic->done, BITE);
    atomic_store_explicit(&peer->mine->writing, 1, memory_order_relaxed);
    near_fence();
    bool revoked = atomic_load_explicit(&peer->theirs->revoked, memory_order_acquire);
    if (!revoked)
        copy_bytes(traffic->place + traffic->done, (char *)send->data + traffic->done, bytes,
                   send->bytes >= messages->streaming_from);
    atomic_store_explicit(&peer->mine->writing, 0, memory_order_release);
    if (revoked)
        return error_set(error, WEFT_ERROR_PEER, "rank %u no longer takes the message that it asked for", peer->rank);
    traffic->done += bytes;
    if (traffic->done < send->bytes)
        return WEFT_OK;
    weft_status status = answer(messages, send, RECORD_WRITTEN, traffic->peer_handle, 0, 0, error);
    drop_handle(messages, send);
    complete(messages, send);
    return status;
}

static void move_filling(struct near_messages *messages, struct transfer *send)
{
    struct traffic *traffic = traffic_of(send);
    struct stage *stage = traffic->stage;
    uint64_t taken = atomic_load_explicit(&stage->area->taken, memory_order_acquire);
    while (traffic->done < send->bytes && stage->filled - taken < STAGE_CHUNKS) {
        uint64_t bytes = next_bite(send, traffic->done, STAGE_CHUNK);
        memcpy(stage->area->chunks[stage->filled % STAGE_CHUNKS], (char *)send->data + traffic->done, bytes);
        atomic_store_explicit(&stage->area->filled, ++stage->filled, memory_order_release);
        traffic->done += bytes;
        dialogue_of(messages, send)->wake = true;
    }
    if (traffic->done < send->bytes)
        return;
    stage->user = NULL; /* free again when the receiver has taken all */
    drop_handle(messages, send);
    complete(messages, send);
}

static void move_draining(struct near_messages *messages, struct transfer *receive)
{
    struct traffic *traffic = traffic_of(receive);
    struct stage_area *area = (struct stage_area *)traffic->place;
    uint64_t taken = traffic->first_chunk + traffic->done / STAGE_CHUNK;
    uint64_t filled = atomic_load_explicit(&area->filled, memory_order_acquire);
    while (taken < filled && traffic->done < receive->bytes) {
        uint64_t bytes = next_bite(receive, traffic->done, STAGE_CHUNK);
        copy_bytes((char *)receive->data + traffic->done, area->chunks[taken % STAGE_CHUNKS], bytes,
                   receive->bytes >= messages->streaming_from);
        atomic_store_explicit(&area->taken, ++taken, memory_order_release);
        traffic->done += bytes;
        dialogue_of(messages, receive)->wake = true;
    }
    if (traffic->done < receive->bytes)
        return;
    drop_handle(messages, receive);
    complete(messages, receive);
}

static weft_status move(struct near_messages *messages, struct transfer *transfer, struct error *error)
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

/* A turn for each transfer that moves. */
static weft_status move_all(struct near_messages *messages, struct error *error)
{
    weft_status status = WEFT_OK;
    struct transfer *moving = messages->first_moving;
    messages->first_moving = messages->last_moving = NULL;
    while (moving) {
        struct transfer *next = moving->next;
        if (status == WEFT_OK)
            status = move(messages, moving, error);
        if (moving->state == TRANSFER_ACTIVE)
            list_push(&messages->first_moving, &messages->last_moving, moving);
        moving = next;
    }
    return status;
}

static bool stage_is_free(const struct stage *stage)
{
    return !stage->user &&
           (!stage->area || atomic_load_explicit(&stage->area->taken, memory_order_acquire) == stage->filled);
}

static struct stage *stage_find(struct near_messages *messages)
{
    struct stage *unused = NULL;
    for (struct stage *stage = messages->stages; stage < messages->stages + STAGES; stage++) {
        if (!stage_is_free(stage))
            continue;
        if (stage->area)
            return stage;
        if (!unused)
            unused = stage;
    }
    return unused;
}

/* Give stages to sends whose receivers wait for them. */
static weft_status begin_staging(struct near_messages *messages, struct error *error)
{
    weft_status status = WEFT_OK;
    struct heap *heap = messages->near->heap;
    struct stage *stage;
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
        status = answer(messages, send, RECORD_STAGED, traffic->peer_handle,
                        heap_offset(heap, stage->area, sizeof *stage->area), stage->filled, error);
        begin_moving(messages, send, PHASE_FILLING);
    }
    return status;
}

/* ---- receiving
 * --------------------------------------------------------------------------------------------------------- */

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
        return answer(messages, receive, RECORD_REFUSED, from, 0, 0, error);
    }
    if (peer->same_process || place != HEAP_NOWHERE) {
        if (!peer->same_process && (place >= peer->heap_bytes || bytes > peer->heap_bytes - place))
            return nonsense(dialogue, "the place of a message", error);
        traffic->place = peer->base + place;
        begin_moving(messages, receive, PHASE_READING);
        return WEFT_OK;
    }
    if (!(traffic->handle = handle_open(&messages->handles, receive)))
        return no_memory(error);
    traffic->phase = PHASE_ASKED;
    return answer(messages, receive, RECORD_PULL, from, place_of(messages->near, peer, receive), 0, error);
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
    begin_moving(messages, send, PHASE_WRITING);
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
    begin_moving(messages, receive, PHASE_DRAINING);
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

static weft_status take_records(struct near_messages *messages, struct near_dialogue *dialogue, struct error *error)
{
    weft_status status = WEFT_OK;
    const struct record *record;
    while (status == WEFT_OK && (record = pipe_peek(&dialogue->in))) {
        uint32_t lines = record->kind == RECORD_EAGER ? pipe_lines(record->bytes) : 1;
        status = take_record(messages, dialogue, record, error);
        if (pipe_take(&dialogue->in, lines))
            dialogue->wake = true;
    }
    return status;
}

/* ---- the transport's functions
 * ------------------------------------------------------------------------------------------ */

static void wake_one(struct near_dialogue *dialogue)
{
    if (!dialogue->wake)
        return;
    dialogue->wake = false;
    near_fence();
    near_wake(dialogue->peer);
}

static weft_status begin_send(struct near_messages *messages, struct near_dialogue *dialogue, struct transfer *send,
                              struct error *error)
{
    weft_status status = WEFT_OK;
    if (!dialogue->first_waiting && send_now(messages, dialogue, send, &status, error))
        return status;
    traffic_of(send)->phase = PHASE_WAITING;
    list_push(&dialogue->first_waiting, &dialogue->last_waiting, send);
    return status;
}

static weft_status begin_receive(struct near_messages *messages, struct near_dialogue *dialogue,
                                 struct transfer *receive, struct error *error)
{
    struct channel *channel = channel_find(&dialogue->channels, receive->communicator, receive->channel);
    if (!channel)
        return no_memory(error);
    struct early *early = channel_pop_early(channel);
    if (!early) {
        traffic_of(receive)->phase = PHASE_POSTED;
        channel_push_receive(channel, receive);
        return WEFT_OK;
    }
    weft_status status = WEFT_OK;
    if (!early->eager) {
        status = accept_offer(messages, dialogue, receive, early->tag, early->bytes, early->from, early->place, error);
    } else {
        count_delivered(dialogue, early->bytes);
        if (!agrees(receive, early->tag, early->bytes)) {
            mismatch(receive, early->tag, early->bytes);
        } else {
            if (early->bytes)
                memcpy(receive->data, early->payload, early->bytes);
            complete(messages, receive);
        }
    }
    early_give_back(&messages->early, early);
    return status;
}

static weft_status messages_begin(struct transport *transport, struct transfer *transfer, struct error *error)
{
    struct near_messages *messages = (struct near_messages *)transport;
    if (!near_reaches(messages->near, transfer->peer))
        return error_set(error, WEFT_ERROR_STATE,
                         "rank %u does not share memory with rank %u: no message can go that way", transfer->peer,
                         messages->near->rank);
    struct near_dialogue *dialogue = dialogue_of(messages, transfer);
    *traffic_of(transfer) = (struct traffic){0};
    transfer->state = TRANSFER_ACTIVE;
    weft_status status = transfer->is_send ? begin_send(messages, dialogue, transfer, error)
                                           : begin_receive(messages, dialogue, transfer, error);
    wake_one(dialogue);
    return status;
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
        status = take_records(messages, dialogue, error);
        if (status == WEFT_OK && (dialogue->first_notice || dialogue->first_waiting))
            status = flush(messages, dialogue, error);
        wake |= dialogue->wake;
    }
    if (messages->first_pulled && status == WEFT_OK)
        status = begin_staging(messages, error);
    if (messages->first_moving && status == WEFT_OK) {
        status = move_all(messages, error);
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

/* Nobody may store into the peer's place of a cancelled receive; see move_writing(). A peer that is stopped in the
 * middle of a store for longer than this is past help. */
static void revoke(const struct near_peer *peer)
{
    enum { PAUSES = 10 * 1000 * 1000 };
    atomic_store_explicit(&peer->mine->revoked, 1, memory_order_release);
    near_fence();
    for (uint32_t i = 0; i < PAUSES && atomic_load_explicit(&peer->theirs->writing, memory_order_acquire); i++)
        clock_pause();
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
            revoke(dialogue->peer);
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

static int messages_wait_descriptor(const struct transport *transport)
{
    return -1; /* the rank's doorbell */
}

/* Whether a transfer of the moving list could move now. */
static bool can_move(struct transfer *transfer)
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
    for (struct transfer *moving = messages->first_moving; moving; moving = moving->next)
        if (can_move(moving))
            return false;
    return !messages->first_pulled || !stage_find(messages);
}

/* near_close() closes it. */
static void messages_close(struct transport *transport)
{
}

/* ---- opening
 * ------------------------------------------------------------------------------------------------------------ */

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
        .wait_descriptor = messages_wait_descriptor,
        .may_sleep = messages_may_sleep,
        .close = messages_close,
    };
    made->near = near;
    made->streaming_from = copy_streaming_threshold();
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
    for (struct stage *stage = messages->stages; stage < messages->stages + STAGES; stage++)
        if (stage->area && stage_is_free(stage))
            heap_free(messages->near->heap, stage->area);
    notices_free(messages->spare_notices);
    early_pool_close(&messages->early);
    handle_table_close(&messages->handles);
    free(messages);
}

struct transport *near_messages_transport(struct near_messages *messages)
{
    return &messages->transport;
}
