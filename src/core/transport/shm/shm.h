/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shared memory: the ranks of this machine, whose heaps this rank has mapped.
 *
 * Descriptors (heap and doorbell) are passed over an abstract UNIX socket, which proves that two ranks share a machine
 * and a network namespace. Ranks that are threads of one process share one heap and one mapping of it. The module
 * offers load and store access to a peer's heap, with doorbells that wake a sleeper (for the shared-memory steps of
 * schedules), and a struct transport for messages.
 *
 * Waking: a rank that is about to sleep sets its sleeping flag (in shared memory), checks once more, then polls its
 * doorbell (an eventfd). A rank that has stored data for which a peer may wait calls shm_ring(), which costs a fence
 * and a load unless the peer sleeps.
 */
#ifndef WEFT_CORE_TRANSPORT_SHM_SHM_H
#define WEFT_CORE_TRANSPORT_SHM_SHM_H

#include "base/error.h"
#include "core/transport/heap/heap.h"
#include "core/transport/transport.h"

struct shm;
struct control;

#define SHM_NAME_BYTES 40

/** How a peer connects: part of the rank's endpoint info. */
struct shm_endpoint {
    char name[SHM_NAME_BYTES]; /**< of the abstract socket */
    uint64_t heap_identity;    /**< equal: threads of one process */
};

/** Open this rank's listening socket, doorbell and control page in `heap` (borrowed). */
weft_status shm_create(struct heap *heap, uint32_t rank, uint32_t ranks, uint64_t secret_hash, struct shm **shm,
                       struct error *error);
void shm_destroy(struct shm *shm);

/**
 * Make sure that those of `count` ranks that are separate local processes have ended: they are killed and awaited, so
 * that none of them ever writes to this rank's memory again. Errors: SYSTEM, naming the process, when it cannot be
 * killed or does not end within `limit_seconds`.
 */
weft_status shm_evict(struct shm *shm, const uint32_t *ranks, uint32_t count, double limit_seconds,
                      struct error *error);

/** Wait until rank `rank` has ended by itself, if it is a separate local process, at most until clock_now() is `deadline`. */
void shm_await_end(struct shm *shm, uint32_t rank, uint64_t deadline);

/** Make shm_connect() give up when the job fails meanwhile. `control` (borrowed) may be NULL. */
void shm_set_control(struct shm *shm, const struct control *control);

/** No other peer uses this rank's memory any more: shm_destroy() may free it. */
void shm_mark_quiescent(struct shm *shm);

void shm_endpoint_info(const struct shm *shm, struct shm_endpoint *endpoint);

/**
 * Connect to `count` ranks (this one may be among them; it is skipped). All of them call it with the same set; returns
 * when both directions are connected. `endpoints` has an entry for each of `ranks_list`. Other processes' connections
 * are dropped.
 */
weft_status shm_connect(struct shm *shm, const uint32_t *ranks_list, const struct shm_endpoint *endpoints,
                        uint32_t count, double limit_seconds, struct error *error);

/** Whether `rank` (a world rank) is connected by shared memory. */
bool shm_reaches(const struct shm *shm, uint32_t rank);

/** The peer's heap as mapped here (own rank: own heap). */
char *shm_peer_base(const struct shm *shm, uint32_t rank);

/** Wake `rank` if it sleeps. Call after the store that it may be waiting for. Any thread. */
void shm_ring(struct shm *shm, uint32_t rank);

/**
 * Wake those of `count` ranks that sleep, with one fence for all. Ranks that are not local, and this one, are skipped.
 * Any thread.
 */
void shm_ring_all(struct shm *shm, const uint32_t *ranks, uint32_t count);

/**
 * This rank's doorbell, for poll (readable: rung), and the sleeping flag, set before and cleared after. Between
 * shm_sleep_begin() and poll the caller checks again everything that it waits for (the transport's may_sleep() checks
 * messages). shm_sleep_end() clears the flag and drains the doorbell. One thread at a time.
 */
int shm_doorbell(const struct shm *shm);
void shm_sleep_begin(struct shm *shm);
void shm_sleep_end(struct shm *shm);

/** Messages through shared memory. Owned by `shm`. */
struct transport *shm_transport(struct shm *shm);

#endif
