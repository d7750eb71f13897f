/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A communicator's schedules, compiled once and kept: found by collective, size class, root and what was asked of it.
 *
 * A schedule in the cache is one block of memory with a checksum, which is verified each time the schedule is about to run: a
 * schedule that was overwritten fails its operation, it is not executed. No collective runs without a schedule from here.
 * Guarded by the context's progress_lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_SCHEDULE_CACHE_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_SCHEDULE_CACHE_H

#include "base/error.h"
#include "core/collective/call.h"
#include "core/collective/internal/reduction.h"
#include "core/schedule/generators/generate.h"

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULE_CACHE_BUCKETS 64

#define SCHEDULE_KEY_LOADED 0x80000000u

/** What a schedule is found by. */
struct schedule_key {
    uint8_t collective;
    uint8_t size_class; /**< 0: an input fits into the line of a flag; k: blocks of up to 2^k bytes */
    uint8_t in_place;   /**< alltoall only */
    uint8_t reproducible;
    uint32_t root;
    uint32_t peer;
    uint32_t
        algorithm; /**< 0: the tuner's choice; i + 1: number i of algorithms_of(); SCHEDULE_KEY_LOADED + n: schedule
                           number n of those loaded */
};

/** A key as two words, which compare faster than fields. */
struct schedule_key_words {
    uint64_t what, who;
};

/** The call that a schedule served last, and what follows from it: the next one is mostly the same. */
struct schedule_usage {
    bool known; /**< there was one, and it was none of the v-forms */
    uint8_t type, op;
    uint64_t count;
    double factor;
    uint64_t hash; /**< a call's tag but for its sequence number */
    uint64_t block_bytes, input_bytes, output_bytes;
    uint8_t room;                   /**< of an exchange: exchange_room() */
    bool finishes;                  /**< `finish` follows the sum */
    struct reduction_finish finish; /**< average, scale */
};

/** A schedule in the cache, and what the executor works out from it once. */
struct schedule_entry {
    struct schedule_key key;
    struct schedule_key_words words; /**< the same */
    struct schedule_entry *next;     /**< of the bucket */
    struct schedule *schedule;       /**< one block of memory: frame, groups, members, steps */
    uint64_t bytes;                  /**< of that block */
    uint64_t checksum;               /**< of that block */

    bool uses_shm;  /**< it has steps through shared memory */
    bool exchanges; /**< it is one STEP_EXCHANGE */
    bool exposes;
    bool signals_first;     /**< the first lane waits for nobody before its first signal, which is to all local ranks */
    uint32_t spread_blocks; /**< blocks that staging for what this rank spreads must have */
    uint32_t arrival_chunks[SCHEDULE_LANES]; /**< room that a lane's STEP_RECEIVE_REDUCE needs for what arrives */

    uint64_t most_block_bytes; /**< that it can serve */

    struct schedule_usage usage;
};

struct schedule_cache {
    struct schedule_entry *last; /**< the one used last, looked at first */
    struct schedule_entry *buckets[SCHEDULE_CACHE_BUCKETS];
};

/** The largest block that a class of blocks serves; class 0 is what fits into the line of a flag (all blocks of an
 * input together). */
uint64_t schedule_class_bytes(const weft_comm *comm, enum collective collective, uint8_t size_class);

/**
 * The schedule that serves `call` on `comm`, whose largest block has `block_bytes` bytes: from the cache, or chosen,
 * generated, checked and kept. Errors: ARGUMENT when the algorithm asked for cannot serve it.
 */
weft_status schedule_cache_find(weft_comm *comm, const struct call *call, uint64_t block_bytes,
                                struct schedule_entry **entry, struct error *error);

/**
 * Check `call` and find the schedule that serves it (schedule_cache_find()). If it is the last call again but for its buffers,
 * and these are there and do not overlap in part, there is nothing to check and nothing to find. Errors: ARGUMENT.
 */
weft_status schedule_cache_serve(weft_comm *comm, const struct call *call, struct schedule_entry **entry,
                                 struct error *error);

/** Work out what follows from serving `call`, unless it is as it was. */
void schedule_entry_use(struct schedule_entry *entry, const struct call *call);

/** The schedule is what it was when it was made; error SCHEDULE: it must not be executed. */
weft_status schedule_entry_verify(const struct schedule_entry *entry, const weft_comm *comm, struct error *error);

/** The shape that schedules of `key` are generated for. */
struct schedule_shape schedule_shape_of(const weft_comm *comm, const struct schedule_key *key);

/**
 * The tag of a call as number `sequence`, where the one before had the tag `before` (0: the first; messages): equal on
 * all ranks that have made the same calls so far. So whoever meets a rank's tag at any later operation knows of every
 * call in which they disagreed, though nobody looked at it then.
 */
uint64_t schedule_entry_tag(struct schedule_entry *entry, const struct call *call, uint64_t sequence, uint64_t before);

void schedule_cache_free(struct schedule_cache *cache);

#endif
