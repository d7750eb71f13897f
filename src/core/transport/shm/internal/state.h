/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shared by shm.c (peers, doorbells), setup.c (the handshake) and messages.h (the transport).
 *
 * Everything in shared memory has a single writer: a rank writes only to its own heap. A rank's page and, for each
 * peer, a *mailbox* to it are allocated there; their offsets are sent in the handshake.
 */
#ifndef WEFT_CORE_TRANSPORT_SHM_INTERNAL_STATE_H
#define WEFT_CORE_TRANSPORT_SHM_INTERNAL_STATE_H

#include "core/transport/shm/shm.h"

#include <stdatomic.h>

#define SHM_LINE_BYTES 64u
#define SHM_PIPE_LINES 512u

/** A cache line of a pipe. The first word never holds payload, so a stale line cannot pass for a fresh one. */
struct shm_pipe_line {
    _Alignas(64) _Atomic uint64_t stamp; /**< of a record's first line: its position + 1 */
    char rest[SHM_LINE_BYTES - 8];
};

/** One rank's mailbox for one peer: a pipe of records (pipe.h), and how far it has read the peer's pipe. */
struct shm_mailbox {
    /**
     * The last of the two ranks to leave frees both mailboxes (in one process) or its own, because a rank may still
     * read the mailbox of one that has left. Both count in the mailbox of the lower rank.
     */
    _Alignas(64) _Atomic uint32_t departures;
    _Alignas(64) _Atomic uint64_t consumed; /**< lines of the peer's pipe that this rank has read */
    _Atomic uint64_t delivered;             /**< lines of the peer's eager messages that have been received */
    _Alignas(64) _Atomic uint32_t writing;  /**< this rank is storing into a buffer of the peer's */
    _Alignas(64) _Atomic uint32_t revoked;  /**< the peer must not store into buffers of this rank any more */
    struct shm_pipe_line pipe[SHM_PIPE_LINES];
};

/** A rank's control page. */
struct shm_page {
    _Alignas(64) _Atomic uint32_t asleep; /**< set by the rank that polls its doorbell, cleared by the rank that
                                               wakes it */
};

/** A local rank, as this rank sees it. Entry `self` describes this rank. */
struct shm_peer {
    bool connected;
    bool same_process;
    bool fenced; /**< its process has ended */
    uint32_t rank;
    int process;            /**< its number here; 0: not known */
    int process_descriptor; /**< a pidfd; -1: none */
    char *base;             /**< of its heap, here */
    uint64_t heap_bytes;
    uint64_t heap_identity;
    struct shm_page *page;             /**< in its heap */
    int doorbell;                      /**< its eventfd, ours to close */
    struct shm_mailbox *mine;          /**< in this rank's heap: for this rank's records to it */
    struct shm_mailbox *theirs;        /**< in its heap: for its records to this rank */
    struct shm_connection *connection; /**< the messages to and from it */
};

struct shm {
    struct heap *heap;
    uint32_t rank, ranks;
    uint64_t secret_hash;
    struct shm_endpoint endpoint;
    int listener;
    int doorbell;
    struct shm_page *page;
    struct shm_peer **peers; /**< by world rank; NULL: not local */
    struct shm_peer **known; /**< the same, back to back, this rank included; some may not be connected yet */
    uint32_t known_count;
    struct shm_messages *messages; /**< the transport */
    const struct control *control; /**< may be NULL */
    bool settled;                  /**< no peer reads this rank's memory any more */
};

/** Make room for a peer: an entry and this rank's mailbox to it. */
weft_status shm_peer_add(struct shm *shm, uint32_t rank, struct shm_peer **peer, struct error *error);

/** Open a pidfd of a peer's process, so that its process id cannot be reused (evict.c). */
void shm_peer_hold(struct shm_peer *peer);

/** Open the abstract socket under a random name (setup.c). */
weft_status shm_listen(struct shm *shm, struct error *error);

/** A full fence: stores before it are seen before loads after it are made. */
static inline void shm_fence(void)
{
#if defined(__SANITIZE_THREAD__)
    _Atomic uint32_t word = 0; /* the thread sanitizer knows no fences; a read-modify-write orders as well */
    atomic_fetch_add(&word, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/** Wake a peer that sleeps; after a shm_fence(). */
void shm_peer_wake(const struct shm_peer *peer);

/** The messages to and from one peer (messages.c); they begin when its mailbox is known. */
weft_status shm_connection_open(struct shm_peer *peer, struct error *error);
void shm_connection_begin(struct shm_peer *peer);

/** The transport (messages.c). */
weft_status shm_messages_open(struct shm *shm, struct shm_messages **messages, struct error *error);
void shm_messages_close(struct shm_messages *messages);
struct transport *shm_messages_transport(struct shm_messages *messages);

#endif
