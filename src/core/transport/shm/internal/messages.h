/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shared by the files of the shm transport: messages.c (the transport's functions), send.c (records and messages to a
 * peer), move.c (data that takes more than one round) and receive.c (records from a peer). A message's path depends on
 * its size and on where its two buffers are:
 *
 *   up to EAGER_BYTES      in the pipe itself (RECORD_EAGER); the send is complete at once
 *   sender's in its heap   OFFER with its place; the receiver copies from there, then TAKEN: one copy
 *   only receiver's is     OFFER; PULL with the receiver's place; the sender copies to there; WRITTEN: one copy
 *   neither                OFFER; PULL; STAGED; through a stage of a few chunks in the sender's heap: two copies that
 *                          overlap
 *
 * Ranks of one process read each other's memory wherever it lies. A sender whose eager messages go unreceived offers
 * even small ones, so the messages that a receiver must store are bounded by EAGER_CREDIT lines and, beyond that, by
 * its peers' messages in flight.
 *
 * No limited resource (a stage) is taken before the receive is known, so no channel can block another: every stage in
 * use has a receiver that empties it. Records that do not fit into the pipe wait in a list here.
 */
#ifndef WEFT_CORE_TRANSPORT_SHM_INTERNAL_MESSAGES_H
#define WEFT_CORE_TRANSPORT_SHM_INTERNAL_MESSAGES_H

#include "core/transport/shm/internal/match.h"
#include "core/transport/shm/internal/pipe.h"
#include "core/transport/shm/internal/state.h"

#define EAGER_BYTES  2048u
#define STAGES       8u
#define STAGE_CHUNKS 4u
#define STAGE_CHUNK  (UINT64_C(64) << 10)

/** In the sender's heap. Counts only grow, from one message to the next. */
struct stage_area {
    _Alignas(64) _Atomic uint64_t filled; /**< chunks, by the sender */
    _Alignas(64) _Atomic uint64_t taken;  /**< chunks, by the receiver */
    _Alignas(64) char chunks[STAGE_CHUNKS][STAGE_CHUNK];
};

struct shm_stage {
    struct stage_area *area;
    struct transfer *user;
    uint64_t filled;
};

enum phase {
    PHASE_NONE,
    PHASE_WAITING,  /**< send: for room in the pipe */
    PHASE_OFFERED,  /**< send: for the receiver's answer */
    PHASE_PULLED,   /**< send: for a stage */
    PHASE_FILLING,  /**< send: into a stage */
    PHASE_WRITING,  /**< send: into the receiver's buffer */
    PHASE_POSTED,   /**< receive: for a message */
    PHASE_ASKED,    /**< receive: for the sender's WRITTEN or STAGED */
    PHASE_READING,  /**< receive: from the sender's buffer */
    PHASE_DRAINING, /**< receive: from a stage */
};

/** The transport's state in a transfer's private words. */
struct __attribute__((may_alias)) traffic {
    uint64_t handle;         /**< ours; 0: none */
    uint64_t peer_handle;    /**< the other side's */
    char *place;             /**< the other side's data, or the stage's area, here */
    struct shm_stage *stage; /**< PHASE_FILLING */
    uint64_t done;           /**< bytes moved */
    uint64_t first_chunk;    /**< PHASE_DRAINING: the stage's count at the message's beginning */
    enum phase phase;
};
_Static_assert(sizeof(struct traffic) <= sizeof((struct transfer *)0)->private_words, "must fit");

/** A record that waits for room in the pipe. */
struct notice {
    struct notice *next;
    struct record record;
};

struct shm_connection {
    struct shm_peer *peer;
    struct pipe_writer out;
    struct pipe_reader in;
    struct shm_channel_table channels;
    struct notice *first_notice, *last_notice;
    struct transfer *first_waiting, *last_waiting; /**< sends */
    uint64_t eager_sent, eager_seen;               /**< lines sent, and known to have been delivered */
    uint64_t eager_delivered;                      /**< lines received */
    bool wake;                                     /**< data was stored that the peer may wait for */
};

struct shm_messages {
    struct transport transport; /**< first */
    struct shm *shm;
    struct transport_counters counters;
    struct handle_table handles;
    struct early_pool early;
    struct notice *spare_notices;
    struct transfer *first_moving, *last_moving;
    struct transfer *first_pulled, *last_pulled;
    struct shm_stage stages[STAGES];
    uint64_t streaming_from;
};

static inline struct traffic *traffic_of(struct transfer *transfer)
{
    return (struct traffic *)transfer->private_words;
}

static inline struct shm_connection *connection_of(const struct shm_messages *messages, const struct transfer *transfer)
{
    return messages->shm->peers[transfer->peer]->connection;
}

/** Append to a list of transfers. */
static inline void transfer_list_push(struct transfer **first, struct transfer **last, struct transfer *transfer)
{
    transfer->next = NULL;
    if (*last)
        (*last)->next = transfer;
    else
        *first = transfer;
    *last = transfer;
}

/** The transfer has ended. */
static inline void transfer_complete(struct shm_messages *messages, struct transfer *transfer)
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

static inline void transfer_mismatch(struct transfer *transfer, uint64_t peer_tag, uint64_t peer_bytes)
{
    traffic_of(transfer)->phase = PHASE_NONE;
    transfer->peer_tag = peer_tag;
    transfer->peer_bytes = peer_bytes;
    transfer->state = TRANSFER_MISMATCH;
}

static inline void transfer_drop_handle(struct shm_messages *messages, struct transfer *transfer)
{
    struct traffic *traffic = traffic_of(transfer);
    if (traffic->handle)
        handle_close(&messages->handles, traffic->handle);
    traffic->handle = 0;
}

static inline weft_status messages_no_memory(struct error *error)
{
    return error_memory(error, 4096, "messages between ranks of this machine");
}

/** A transfer that has not begun. */
static inline void transfer_activate(struct transfer *transfer)
{
    *traffic_of(transfer) = (struct traffic){0};
    transfer->state = TRANSFER_ACTIVE;
}

/** Wake the peer if data was stored for it. */
static inline void connection_wake(struct shm_connection *connection)
{
    if (!connection->wake)
        return;
    connection->wake = false;
    shm_fence();
    shm_peer_wake(connection->peer);
}

/** The offset in this rank's heap where the peer can read or write this transfer's data, or HEAP_NOWHERE. */
static inline uint64_t transfer_place(const struct shm *shm, const struct shm_peer *peer,
                                      const struct transfer *transfer)
{
    if (peer->same_process)
        return (uint64_t)((uintptr_t)transfer->data - (uintptr_t)peer->base);
    return heap_offset(shm->heap, transfer->data, transfer->bytes);
}

/* ---- core/transport/shm/send.c: to a peer ---- */

/** Send the peer of `transfer` a record about it: now, or when there is room in the pipe. */
weft_status shm_send_record(struct shm_messages *messages, const struct transfer *transfer, enum record_kind kind,
                            uint64_t to, uint64_t place, uint64_t count, struct error *error);

/** Begin a send: its first record goes into the pipe, or it waits for room. */
weft_status shm_send_begin(struct shm_messages *messages, struct transfer *send, struct error *error);

/** Send records that waited for room, in order. */
weft_status shm_send_flush(struct shm_messages *messages, struct shm_connection *connection, struct error *error);

/* ---- core/transport/shm/move.c: data that takes more than one turn ---- */

/** Add the transfer to those that get turns: PHASE_READING, WRITING or DRAINING. */
void shm_move_begin(struct shm_messages *messages, struct transfer *transfer, enum phase phase);

/** Give free stages to sends whose receivers wait for them. */
weft_status shm_stages_assign(struct shm_messages *messages, struct error *error);

/** A turn for each transfer that moves. */
weft_status shm_move_all(struct shm_messages *messages, struct error *error);

/** Whether a turn would move data now. */
bool shm_can_move(struct shm_messages *messages);

/** Revoke `peer`'s permission to store into buffers of this rank: a receive that it may be storing into is being
 * canceled.
 */
void shm_revoke_writes(const struct shm_peer *peer);

/** Free the stages that no peer reads. */
void shm_stages_close(struct shm_messages *messages);

/* ---- core/transport/shm/receive.c: from a peer ---- */

/** Begin a receive: its message may be here already. */
weft_status shm_receive_begin(struct shm_messages *messages, struct transfer *receive, struct error *error);

/** Handle the records that have arrived, from `record` on. WEFT_ERROR_DATA if one is malformed. */
weft_status shm_receive_records(struct shm_messages *messages, struct shm_connection *connection,
                                const struct record *record, struct error *error);

#endif
