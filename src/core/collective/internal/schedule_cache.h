/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A communicator's schedules, compiled once and cached by collective, size class, root and options.
 *
 * A cached schedule is one block of memory with a checksum, which is verified each time before it runs: a corrupted
 * schedule fails its operation and is not executed. No collective runs without a schedule from here. Guarded by the
 * context's progress lock.
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

/** The key of a cached schedule. */
struct schedule_key {
    uint8_t collective;
    uint8_t size_class; /**< 0: an input fits into a flag's line; k: blocks of up to 2^k bytes */
    uint8_t in_place;   /**< alltoall only */
    uint8_t reproducible;
    uint32_t root;
    uint32_t peer;
    uint32_t
        algorithm; /**< 0: the tuner's choice; i + 1: number i of algorithms_of(); SCHEDULE_KEY_LOADED + n: schedule
                           number n of those loaded */
};

/** A key as two words, which compare faster than separate fields. */
struct schedule_key_words {
    uint64_t what, who;
};

/** The last call that a schedule served, and what was derived from it: the next call is usually the same. */
struct schedule_usage {
    bool known; /**< set; not a v-form */
    uint8_t type, op;
    uint64_t count;
    double factor;
    uint64_t hash; /**< a call's tag without its sequence number */
    uint64_t block_bytes, input_bytes, output_bytes;
    uint8_t room;                   /**< of an exchange: exchange_room() */
    bool finishes;                  /**< `finish` follows the sum */
    struct reduction_finish finish; /**< average, scale */
};

/** A cached schedule, and what the executor derives from it once. */
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
    bool signals_first;     /**< the first lane sends its first signal, to all local ranks, without waiting */
    uint32_t spread_blocks; /**< blocks of staging needed for what this rank spreads */
    uint32_t arrival_chunks[SCHEDULE_LANES]; /**< chunks that a lane's STEP_RECEIVE_REDUCE needs for arriving data */

    uint64_t most_block_bytes; /**< largest block that it can serve */

    struct schedule_usage usage;
};

struct schedule_cache {
    struct schedule_entry *last; /**< most recently used, tried first */
    struct schedule_entry *buckets[SCHEDULE_CACHE_BUCKETS];
};

/**
 * The schedule for `call` on `comm`, whose largest block has `block_bytes` bytes: from the cache, or chosen, generated,
 * checked and cached. Errors: ARGUMENT when the requested algorithm cannot serve it.
 */
weft_status schedule_cache_find(weft_comm *comm, const struct call *call, uint64_t block_bytes,
                                struct schedule_entry **entry, struct error *error);

/**
 * Check `call` and find its schedule (schedule_cache_find()). If only its buffers differ from the last call, and they
 * are not NULL and do not partly overlap, nothing needs to be checked or looked up. Errors: ARGUMENT.
 */
weft_status schedule_cache_serve(weft_comm *comm, const struct call *call, struct schedule_entry **entry,
                                 struct error *error);

/** Verify the schedule's checksum. Errors: SCHEDULE; it must then not be executed. */
weft_status schedule_entry_verify(const struct schedule_entry *entry, const weft_comm *comm, struct error *error);

/** The shape for which schedules of `key` are generated. */
struct schedule_shape schedule_shape_of(const weft_comm *comm, const struct schedule_key *key);

/**
 * The tag of a call with number `sequence`, where the previous call had the tag `before` (0: the first call, and
 * messages): equal on all ranks that have made the same calls so far. So ranks that compare tags at any later operation
 * detect every earlier disagreement, even one that went unnoticed when it happened.
 */
uint64_t schedule_entry_tag(struct schedule_entry *entry, const struct call *call, uint64_t sequence, uint64_t before);

void schedule_cache_free(struct schedule_cache *cache);

#endif
