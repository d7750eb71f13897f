/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Generators: from a shape, the plan of one rank.
 *
 * A generator writes one rank's list without building the others'; all inputs are agreed by all ranks, so plans agree
 * and plan.hash proves it. Thread-safe.
 */
#ifndef WEFT_SCHEDULE_GENERATE_H
#define WEFT_SCHEDULE_GENERATE_H

#include "schedule/plan.h"

/** What the ranks of a communicator look like to a generator. */
struct plan_shape {
    enum collective collective;
    uint32_t ranks;
    uint32_t root; /**< of rooted collectives, the sender of a message (sendreceive); 0 otherwise */
    uint32_t peer; /**< the receiver of a message (sendreceive), another rank than root; 0 otherwise */
    const uint32_t
        *nodes; /**< nodes[r]: the node of rank r, numbered from 0 in order of first appearance; NULL: all near */
    bool reproducible; /**< only canonical plans */
    bool in_place;     /**< alltoall: this rank's INPUT is its OUTPUT. Not agreed, not in the hash; no other collective
                          looks at it */
    uint64_t block_bytes; /**< the size to plan for (segment sizes, inline or not), a block's; agreed: derived from
                             count x type, in v-forms from agreed counts or 0. The plan serves blocks of other sizes too
                             (plan.most_block_bytes) */
};

struct builder;

/** One algorithm: a named generator. */
struct algorithm {
    const char *name;
    const char *summary; /**< one line for people */
    /** Whether sums by it keep the canonical order on this shape (plan.canonical says the same). */
    bool (*canonical)(const struct plan_shape *shape);
    /** NULL when it can serve this shape; otherwise a static clause that says why not ("needs all ranks on one node").
     */
    const char *(*refuses)(const struct plan_shape *shape);
    /** Writes the steps of builder->plan->rank (see schedule/builder.h); called through plan_generate(). */
    void (*write)(struct builder *builder);
};

/** All algorithms of a collective, in order of documentation; *count of them. Static tables. */
const struct algorithm *algorithms_of(enum collective collective, size_t *count);

/** Find by name; NULL with a sentence that lists what there is and names the nearest. */
const struct algorithm *algorithm_find(enum collective collective, const char *name, struct error *error);

/** Why `algorithm` will not serve `shape` (not canonical on a reproducible communicator included), or NULL when it
 * will. */
const char *algorithm_refuses(const struct algorithm *algorithm, const struct plan_shape *shape);

/**
 * Why `algorithm` is not to be chosen for `shape` unless somebody asks for it by name, or NULL when it may be: its sums
 * are not canonical. The exception are two levels on nodes whose sizes are not equal powers of two: there the fewest
 * bytes come first.
 */
const char *algorithm_only_on_request(const struct algorithm *algorithm, const struct plan_shape *shape);

/**
 * Generate the plan of `rank` by `algorithm`; WEFT_ERROR_ARGUMENT with its reason when it refuses the shape. A
 * communicator of one rank gets the same few local steps from every algorithm.
 */
weft_status plan_generate(const struct algorithm *algorithm, const struct plan_shape *shape, uint32_t rank,
                          struct plan **plan, struct error *error);

#endif
