/* SPDX-License-Identifier: Apache-2.0 */
/** The members of gradient groups, shared by gradient_groups.c (sums) and gradient_reduce.c (communication). */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_INTERNAL_GRADIENT_PARTS_H
#define WEFT_TRAINING_PARALLEL_SHARDING_INTERNAL_GRADIENT_PARTS_H

#include "training/parallel/sharding/gradient_groups.h"

struct gradient_group {
    struct group_range range;
    struct group_slice slice;     /**< this rank's */
    size_t partial_offset;        /**< of it in an array of partial sums: ZeRO-2 and 3 of slices, else of groups */
    uint32_t added;               /**< micro-batches so far: of this rank, or in slices of all ranks (ZeRO-2 and 3) */
    struct canonical_stack stack; /**< partial sums: array i of `partials` holds root i */
    struct canonical_root last;   /**< ZeRO-0, 1: the root that is in the place */
    struct group_slice *slices;   /**< of each rank */
};

/** A reduction by slices. */
struct gradient_exchange {
    bool busy;
    uint32_t group, round;
    weft_request *request;
    bool scattered;  /**< by a reduce-scatter: what is received is the sum of all ranks */
    char *send;      /**< as it moves, where it does not move from the place */
    char *receive;   /**< as it moves */
    float *received; /**< as f32; the same memory where it moves so */
    float *place;    /**< the gradient; NULL: none in this round */
    size_t *counts;  /**< four lists, of each rank: sent, from where, received, to where */
};

/** An all-reduce of neighboring groups. */
struct gradient_bucket_range {
    size_t first, end; /**< elements of the flat array */
    weft_request *request;
};

struct gradient_groups {
    struct gradient_groups_config config;
    weft_comm *comm;
    uint32_t rank, ranks;
    struct micro_batch_share share;
    bool whole;     /**< ZeRO-0 where every rank's run is one root: all-reduce */
    bool scatters;  /**< micro_batch_sums_scatter(): reduce-scatter of groups with even slices */
    bool rounds;    /**< gradients are rounded to bf16 */
    size_t element; /**< bytes of one as it moves */
    struct gradient_group *groups;
    struct group_slice *all_slices;

    float *flat;    /**< ZeRO-0, 1 */
    float *moving;  /**< ZeRO-2, 3: the buffers */
    uint16_t *bf16; /**< of the flat array, as it moves, where it is all-reduced */
    float **partials;
    uint32_t partial_count;
    uint32_t own_roots; /**< that this rank sends: 1 under ZeRO-2 and 3 */
    uint32_t all_roots; /**< that an owner receives; under ZeRO-2 and 3 from the others */

    struct gradient_exchange exchanges[GRADIENT_EXCHANGES];
    uint32_t next_exchange;
    const struct gradient_group *sharing; /**< ZeRO-0: its total is on its way to all ranks; NULL: none */
    weft_request *sharing_request;        /**< of that */
    uint16_t *shared;                     /**< bf16: it, as it moves */
    size_t *totals_at;                    /**< counts and places of the slices of a group, for all ranks */

    struct gradient_bucket_range *buckets;
    uint32_t bucket_count; /**< of this step */
    uint32_t *bucket_of;   /**< of each group */
    uint32_t unfinished;   /**< groups in them that have started */
    bool is_filling;       /**< the last bucket has not started */
};

/** target += other; rounded if gradients are. */
void gradient_sums_add(struct gradient_groups *groups, float *target, const float *other, size_t count);

/** Round in place, if gradients are rounded. */
void gradient_sums_round(struct gradient_groups *groups, float *array, size_t count);

/** Partial sum `number` of a group. */
float *gradient_partial(struct gradient_groups *groups, const struct gradient_group *group, uint32_t number);

/** Add `number` more arrays of `count` elements to the partial sums: sums of 2^level micro-batches each, which begin at
 * `micro_batch`. Two must be siblings in the tree. */
void gradient_partials_push(struct gradient_groups *groups, struct gradient_group *group, const float *const *arrays,
                            uint32_t number, size_t count, uint32_t level, uint32_t micro_batch);

/** Add up what is left, from right to left, into the first partial sum. */
void gradient_partials_fold(struct gradient_groups *groups, struct gradient_group *group, size_t count);

/** The roots of a rank's run; the last one is in its place. */
uint32_t gradient_roots_of(const struct gradient_groups *groups, uint32_t rank, struct canonical_stack *roots);

#endif
