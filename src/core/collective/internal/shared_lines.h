/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Control lines: the state that a rank of a communicator publishes to the local ranks. They lie in its own heap, one
 * cache line each.
 *
 * Each lane has one counter. Only its rank writes it, and it only grows: (number << SHARED_SIGNAL_BITS) + signals,
 * where `number` counts the communicator's shared-memory operations (those whose schedule has shared-memory steps) from
 * 1. No counter is ever reset, and the counter of a later operation satisfies every wait for an earlier one.
 *
 * The first lane's line also carries the operation's tag, and either the places where local ranks find this rank's
 * buffers, or the whole contribution (STEP_EXCHANGE; a longer one lies in the annex). These are written before the
 * counter. The line exists SHARED_TURNS times, used in turn, because a rank may begin operation n + 1 while another
 * still reads what it published for n. A rank that has begun n + 1 is done with n, so operation n + SHARED_TURNS may
 * begin once all local ranks have begun n + 1 (comm.shm_credit). A rank that only contributes to exchanges, such as the
 * root of a broadcast, can be that far ahead. The annex has fewer long places, and staging is kept for one operation
 * more than is in flight: an operation with other shared-memory steps begins once all local ranks have begun the one
 * before it.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_SHARED_LINES_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_SHARED_LINES_H

#include "core/schedule/format/schedule.h"

#include <stdatomic.h>
#include <stdint.h>

#define SHARED_SIGNAL_BITS 24
#define SHARED_TURNS       16
#define SHARED_LONG_TURNS  4    /* of contributions longer than ... */
#define SHARED_SHORT_BYTES 1024 /* ... this */

/** Offsets into the owner's heap; HEAP_NOWHERE: no such place. */
struct shared_places {
    uint64_t input;          /**< INPUT, when it is registered */
    uint64_t output;         /**< OUTPUT, when it is registered and its blocks lie packed */
    uint64_t exposed;        /**< staging of an ordinary INPUT, the first slot */
    _Atomic uint64_t spread; /**< staging for ordinary OUTPUTs; known from the first spread on */
    uint64_t stride;         /**< of both, from one slot to the next */
    uint64_t slots;          /**< iteration s uses slot s mod slots */
};
_Static_assert(sizeof(struct shared_places) <= SCHEDULE_LINE_BYTES, "places travel in the line");

/** One cache line. The line after it stays empty, because processors fetch lines in pairs. */
struct shared_line {
    _Atomic uint64_t counter;
    uint64_t tag;
    union {
        uint8_t inlined[SCHEDULE_LINE_BYTES];
        struct shared_places places;
    };
    uint8_t apart[64];
};
_Static_assert(sizeof(struct shared_line) == 128, "a line and an empty one");

/*
 * The history: tags of every SHARED_HISTORY_STEP-th operation, kept for longer than ranks can be apart. A tag covers
 * all calls up to its own (schedule_cache.h). A rank that contributes without looking at the others, such as the root
 * of a broadcast, checks here that they have made the same calls.
 */
#define SHARED_HISTORY_STEP  8
#define SHARED_HISTORY_TURNS 8

struct shared_block {
    struct shared_line first[SHARED_TURNS];       /**< the first lane's, by operation number modulo SHARED_TURNS */
    struct shared_line lanes[SCHEDULE_LANES - 1]; /**< the other lanes': only the counter is used */
    _Alignas(128) _Atomic uint64_t history[SHARED_HISTORY_TURNS];
    /** How many local ranks have released the communicator; they write it. This memory may be freed when all have. */
    _Alignas(64) _Atomic uint32_t released;
    /** The annex: contributions that do not fit into first[], short and long. */
    _Alignas(64) uint8_t short_annex[SHARED_TURNS][SHARED_SHORT_BYTES];
    _Alignas(64) uint8_t long_annex[SHARED_LONG_TURNS][SCHEDULE_INLINE_BYTES];
};

static inline _Atomic uint64_t *shared_history(struct shared_block *block, uint64_t number)
{
    return &block->history[number / SHARED_HISTORY_STEP % SHARED_HISTORY_TURNS];
}

/** Before operation `number` is published. */
static inline void shared_history_note(struct shared_block *block, uint64_t number, uint64_t tag)
{
    if (number % SHARED_HISTORY_STEP == 0)
        atomic_store_explicit(shared_history(block, number), tag, memory_order_relaxed);
}

#endif
