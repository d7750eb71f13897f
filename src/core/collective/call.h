/* SPDX-License-Identifier: Apache-2.0 */
/** A call on a communicator: its arguments, checked once, in one form for every public function. */
#ifndef WEFT_CORE_COLLECTIVE_CALL_H
#define WEFT_CORE_COLLECTIVE_CALL_H

#include "base/error.h"
#include "core/control/control.h"
#include "core/schedule/format/schedule.h"

#include <stdbool.h>
#include <stdint.h>

/** Counts and displacements of the v-forms, in elements; displacements may be NULL: packed. */
struct call_vectors {
    const size_t *input_counts, *input_displacements; /**< alltoallv, scatterv; NULL: one block, of the rank's count */
    const size_t *output_counts, *output_displacements; /**< all but scatterv, as those of the input */
    /* Of gatherv and scatterv only the root's are complete: others' hold their own count. See call_check(). */
};

/** The purpose of a call. Communicators are made by operations of their parents. */
enum call_purpose {
    CALL_COLLECTIVE, /**< the program's own */
    CALL_SPLIT,
    CALL_DUPLICATE,
    CALL_SUBSET, /**< messages among some ranks */
    CALL_FREE,   /**< in the log only: the last entry of its communicator */
    CALL_FINALIZE,
    CALL_PURPOSES,
};

/** The subset that a message of CALL_SUBSET belongs to. */
struct call_subset {
    uint64_t members; /**< a hash of its ranks in their order */
    uint64_t number;  /**< its number among the subsets of these ranks, from 1 */
};

/** One call. Buffers and vectors are the caller's. */
struct call {
    enum collective collective;
    enum call_purpose purpose;
    const void *input;
    void *output;
    uint64_t count; /**< elements of a block; 0 in the v-forms */
    weft_type type;
    weft_op op;
    uint32_t root;                      /**< of rooted collectives; the sender of a message */
    uint32_t peer;                      /**< the receiver of a message */
    const struct call_vectors *vectors; /**< of the v-forms; NULL otherwise */
    const struct call_subset *subset;   /**< of CALL_SUBSET; NULL otherwise */
};

/**
 * Check the arguments, as rank `rank` of `ranks`: types, root, peer, overflow of sizes, missing buffers, buffers with a
 * forbidden overlap. Errors: ARGUMENT, with a message that names the value. Thread-safe.
 */
weft_status call_check(const struct call *call, uint32_t rank, uint32_t ranks, struct error *error);

/**
 * Bytes of the largest block of a checked call among `ranks` ranks; 0 where no rank knows the sizes of all blocks
 * (collective_hides_sizes()).
 */
uint64_t call_block_bytes(const struct call *call, uint32_t ranks);

/**
 * The count for the operation log: for v-forms the elements that rank `rank` of `ranks` contributes, for CALL_SUBSET
 * the hash of its ranks.
 */
uint64_t call_given_count(const struct call *call, uint32_t rank, uint32_t ranks);

/** Whether a checked call is an alltoallv in place: blocks arrive where others are still to be sent from. */
bool call_exchanges_in_place(const struct call *call);

/** The code for operation_entry.collective: enum collective, or, after those, its purpose. */
static inline uint8_t call_code(const struct call *call)
{
    return (uint8_t)(call->purpose ? COLLECTIVES + call->purpose : call->collective);
}

/** Whether a log entry's code means that its rank has left the communicator: weft_comm_free(), weft_finalize(). */
static inline bool call_is_departure(uint8_t code)
{
    return code == COLLECTIVES + CALL_FREE || code == COLLECTIVES + CALL_FINALIZE;
}

/** The name of a code ("allreduce", "split"); a static string. */
const char *call_name(uint8_t code);

/** Format the call of a log entry: "allreduce(count 1024, f32, sum)"; returns `text`. */
char *call_describe(const struct operation_entry *entry, char *text, size_t size);

/** operation_entry.op of a message: which end this rank is. */
enum { MESSAGE_SENT, MESSAGE_RECEIVED };

#endif
