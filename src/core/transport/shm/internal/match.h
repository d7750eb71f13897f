/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matching messages with receives: for each peer a table of channels (communicator, channel), each with the receives
 * that wait for messages and the messages that wait for receives, both in order; at most one of the two lists is not
 * empty.
 *
 * Also the table of handles: numbers by which a peer names one of our transfers. A closed handle never names a later
 * transfer, so records of a peer about a canceled one are ignored.
 *
 * Memory is kept for reuse and grows only with messages in flight.
 */
#ifndef WEFT_CORE_TRANSPORT_SHM_INTERNAL_MATCH_H
#define WEFT_CORE_TRANSPORT_SHM_INTERNAL_MATCH_H

#include "core/transport/transport.h"

/** A message that came before its receive was posted. */
struct early {
    struct early *next;
    uint64_t tag, bytes;
    bool eager;
    uint64_t from, place; /**< of an offer */
    uint64_t room;        /**< bytes that `payload` has room for */
    char payload[];       /**< of an eager message */
};

struct early_pool {
    struct early *small, *large;
};

struct shm_channel {
    struct shm_channel *next; /**< in its bucket */
    uint32_t communicator;
    uint8_t number;
    struct transfer *first_receive, *last_receive;
    struct early *first_early, *last_early;
};

struct shm_channel_table {
    struct shm_channel **buckets;
    uint32_t size, count; /**< buckets (a power of two), channels */
    struct shm_channel *recent;
};

/** The channel, created if needed; NULL when out of memory. */
struct shm_channel *channel_find(struct shm_channel_table *table, uint32_t communicator, uint8_t number);
void channel_table_close(struct shm_channel_table *table, struct early_pool *pool);

void channel_push_receive(struct shm_channel *channel, struct transfer *receive);
struct transfer *channel_pop_receive(struct shm_channel *channel);
void channel_push_early(struct shm_channel *channel, struct early *early);
struct early *channel_pop_early(struct shm_channel *channel);

/** Remove a transfer from anywhere in a list; false when it is not in it. */
bool transfer_unlink(struct transfer **first, struct transfer **last, struct transfer *transfer);

/** A record with space for `payload` bytes; NULL when out of memory. */
struct early *early_take(struct early_pool *pool, uint64_t payload);
void early_give_back(struct early_pool *pool, struct early *early);
void early_pool_close(struct early_pool *pool);

struct handle_table {
    struct handle_slot {
        struct transfer *transfer; /**< NULL: free */
        uint32_t generation, next_free;
    } * slots;
    uint32_t size, first_free;
};

/** A handle for a transfer; 0 when out of memory. */
uint64_t handle_open(struct handle_table *table, struct transfer *transfer);

/** The transfer, or NULL when the handle has been closed. */
struct transfer *handle_find(const struct handle_table *table, uint64_t handle);
void handle_close(struct handle_table *table, uint64_t handle);
void handle_table_close(struct handle_table *table);

#endif
