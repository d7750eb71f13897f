/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Control lines: what a rank of a communicator shows to its local ranks, in its own heap, a cache line each.
 *
 * Each lane has one counter, written by its rank alone, which only grows: (number << SHARED_SIGNAL_BITS) + signals, where
 * `number` counts the communicator's shared-memory operations (those whose schedule has shared-memory steps) from 1. So no counter is ever
 * reset, and a counter of a later operation satisfies every wait for an earlier one.
 *
 * The first lane's line also carries, written before its counter: the operation's tag, and either the places where local
 * ranks find this rank's buffers, or the whole contribution (STEP_EXCHANGE; one that is too long lies in the annex). It
 * exists SHARED_TURNS times, used in turn, because a rank may begin operation n + 1 while another still reads what it
 * said for n: who has begun n + 1 is done with n. So operation n + SHARED_TURNS is granted once all local ranks are seen
 * to have begun n + 1 (comm.shm_credit), and whoever only gives in exchanges, the root of a broadcast for one, can be
 * that far ahead. Of the annex's long places there are fewer, and staging is kept for one operation more than is in
 * flight: an operation with other shared-memory steps is granted once all have begun the one before it.
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

/** Offsets into the owner's heap; HEAP_NOWHERE: there is no such place. */
struct shared_places {
    uint64_t input;          /**< INPUT, when it is registered */
    uint64_t output;         /**< OUTPUT, when it is registered and its blocks lie packed */
    uint64_t exposed;        /**< staging of an ordinary INPUT, the first slot */
    _Atomic uint64_t spread; /**< staging of what is spread to ordinary OUTPUTs; known from the first spread on */
    uint64_t stride;         /**< of both, from one slot to the next */
    uint64_t slots;          /**< iteration s uses slot s mod slots */
};
_Static_assert(sizeof(struct shared_places) <= SCHEDULE_LINE_BYTES, "places travel in the line");

/** One cache line; its neighbour stays empty, as processors fetch lines in pairs. */
struct shared_line {
    _Atomic uint64_t counter;
    uint64_t tag;
    union {
        uint8_t inlined[SCHEDULE_LINE_BYTES];
        struct shared_places places;
    };
    uint8_t apart[64];
};
_Static_assert(sizeof(struct shared_line) == 128, "a line and its empty neighbour");

/*
 * The history: tags of every SHARED_HISTORY_STEP-th operation, kept for longer than ranks can be apart. A tag speaks of
 * all calls up to its own (schedule_cache.h), and where a rank gives without looking at anybody, as the root of a broadcast
 * does or who takes itself for it, it is here that it sees whether the others have made the same calls.
 */
#define SHARED_HISTORY_STEP  8
#define SHARED_HISTORY_TURNS 8

struct shared_block {
    struct shared_line first[SHARED_TURNS]; /**< of the first lane, by the operation's number modulo SHARED_TURNS */
    struct shared_line lanes[SCHEDULE_LANES - 1]; /**< of the other lanes: the counter alone */
    _Alignas(128) _Atomic uint64_t history[SHARED_HISTORY_TURNS];
    /** How many local ranks have released the communicator: with all of them, this memory may go. Written by them. */
    _Alignas(64) _Atomic uint32_t released;
    /** The annex: a contribution that does not fit into first[], short or long. */
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
