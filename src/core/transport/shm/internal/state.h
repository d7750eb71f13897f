/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What core/transport/shm/shm.c (who is near, doorbells), core/transport/shm/setup.c (the handshake) and core/transport/shm/internal/messages.h (the transport) share.
 *
 * Everything in shared memory has a single writer: what this rank writes lies in its own heap. A rank's page and, for
 * each peer, a *porch* to it are allocated there; their offsets travel in the handshake.
 */
#ifndef WEFT_CORE_TRANSPORT_SHM_INTERNAL_STATE_H
#define WEFT_CORE_TRANSPORT_SHM_INTERNAL_STATE_H

#include "core/transport/shm/shm.h"

#include <stdatomic.h>

#define NEAR_LINE       64u
#define NEAR_PIPE_LINES 512u

/** A cache line of a pipe. The first word never holds payload, so a stale line cannot pass for a fresh one. */
struct near_line {
    _Alignas(64) _Atomic uint64_t stamp; /**< of a record's first line: its position + 1 */
    char rest[NEAR_LINE - 8];
};

/** What one rank writes for one peer: a pipe of records (core/transport/shm/internal/pipe.h), and how far it has read the peer's. */
struct near_porch {
    /**
     * Whoever of the two leaves last frees both porches (in one process) or its own: a rank may still look at the porch
     * of one that has left. Both count in the porch of the lower rank.
     */
    _Alignas(64) _Atomic uint32_t departures;
    _Alignas(64) _Atomic uint64_t consumed; /**< lines of the peer's pipe that I have done with */
    _Atomic uint64_t delivered;             /**< lines of the peer's eager messages that have found their receive */
    _Alignas(64) _Atomic uint32_t writing;  /**< I am storing into a buffer of the peer's */
    _Alignas(64) _Atomic uint32_t revoked;  /**< the peer must not store into buffers of mine any more */
    struct near_line pipe[NEAR_PIPE_LINES];
};

/** A rank's control page. */
struct near_page {
    _Alignas(64) _Atomic uint32_t asleep; /**< set by the rank that polls its doorbell, cleared by who wakes it */
};

/** A local rank, as this rank sees it. Entry `self` describes this rank. */
struct near_peer {
    bool connected;
    bool same_process;
    bool fenced; /**< its process has ended */
    uint32_t rank;
    int process;            /**< its number here; 0: not known */
    int process_descriptor; /**< a pidfd; -1: none */
    char *base;             /**< of its heap, here */
    uint64_t heap_bytes;
    uint64_t heap_identity;
    struct near_page *page;         /**< in its heap */
    int doorbell;                   /**< its eventfd, ours to close */
    struct near_porch *mine;        /**< in this rank's heap: what I write for it */
    struct near_porch *theirs;      /**< in its heap: what it writes for me */
    struct near_dialogue *dialogue; /**< the messages to and from it */
};

struct near {
    struct heap *heap;
    uint32_t rank, ranks;
    uint64_t secret_hash;
    struct near_card card;
    int listener;
    int doorbell;
    struct near_page *page;
    struct near_peer **peers; /**< by world rank; NULL: not near */
    struct near_peer **known; /**< the same, back to back, this rank included; some may not be connected yet */
    uint32_t known_count;
    struct near_messages *messages; /**< the transport */
    const struct control *control;  /**< may be NULL */
    bool settled;                   /**< no peer looks at this rank's memory any more */
};

/** Make room for a peer: an entry and this rank's porch to it. */
weft_status near_peer_add(struct near *near, uint32_t rank, struct near_peer **peer, struct error *error);

/** Hold on to the process of a peer, so that its number cannot become another's (core/transport/shm/expel.c). */
void near_peer_hold(struct near_peer *peer);

/** Open the abstract socket under a random name (core/transport/shm/setup.c). */
weft_status near_listen(struct near *near, struct error *error);

/** A full fence: stores before it are seen before loads after it are made. */
static inline void near_fence(void)
{
#if defined(__SANITIZE_THREAD__)
    _Atomic uint32_t word = 0; /* the thread sanitizer knows no fences; a read-modify-write orders as well */
    atomic_fetch_add(&word, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/** Wake a peer that sleeps; after a near_fence(). */
void near_wake(const struct near_peer *peer);

/** The messages to and from one peer (core/transport/shm/messages.c); they begin when its porch is known. */
weft_status near_dialogue_open(struct near_peer *peer, struct error *error);
void near_dialogue_begin(struct near_peer *peer);

/** The transport (core/transport/shm/messages.c). */
weft_status near_messages_open(struct near *near, struct near_messages **messages, struct error *error);
void near_messages_close(struct near_messages *messages);
struct transport *near_messages_transport(struct near_messages *messages);

#endif
