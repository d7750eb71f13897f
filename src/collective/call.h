/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A call: what a caller asked of a communicator, checked once, described in one way, whatever function it came through.
 */
#ifndef WEFT_COLLECTIVE_CALL_H
#define WEFT_COLLECTIVE_CALL_H

#include "base/error.h"
#include "control/control.h"
#include "schedule/plan.h"

#include <stdbool.h>
#include <stdint.h>

/** Counts and displacements of the v-forms, in elements; displacements may be NULL: packed. */
struct call_vectors {
    const size_t *input_counts, *input_displacements;   /**< alltoallv */
    const size_t *output_counts, *output_displacements; /**< gatherv: only the root's are complete; call_check() */
};

/** One call. Buffers and vectors are the caller's. A cache line, so that filling it in costs nothing. */
struct call {
    enum collective collective;
    const void *input;
    void *output;
    uint64_t count; /**< elements of a block; 0 in the v-forms */
    weft_type type;
    weft_op op;
    uint32_t root;                      /**< of rooted collectives; the sender of a message */
    uint32_t peer;                      /**< the receiver of a message */
    const struct call_vectors *vectors; /**< of the v-forms; NULL otherwise */
};

/**
 * Check what the caller passed, as rank `rank` of `ranks`: types, root, peer, overflow of sizes, missing buffers,
 * buffers that overlap where they must not. Errors: ARGUMENT, with a sentence that names the value. Thread-safe.
 */
weft_status call_check(const struct call *call, uint32_t rank, uint32_t ranks, struct error *error);

/** Bytes of the largest block of a call that was checked, among `ranks` ranks; 0 where no rank knows the sizes of all
 * blocks (collective_hides_sizes()). */
uint64_t call_block_bytes(const struct call *call, uint32_t ranks);

/** Elements that rank `rank` of `ranks` gives in a call of the v-forms: the count that the operation log has. */
uint64_t call_given_count(const struct call *call, uint32_t rank, uint32_t ranks);

/** The call as an entry of the operation log has it: "allreduce(count 1024, f32, sum)"; returns `text`. */
char *call_describe(const struct operation_entry *entry, char *text, size_t size);

/** In operation_entry.op of a message: which end this rank is. */
enum { MESSAGE_SENT, MESSAGE_RECEIVED };

#endif
