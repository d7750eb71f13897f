/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Gradients: summed over the micro-batches of a global batch and over the data axis, bit for bit as on one rank.
 *
 * For each group, a rank's backward passes write the gradient of one micro-batch after the other to the group's
 * *place*.
 *
 *     ZeRO-0, 1   the place is in a flat array. gradient_groups_add() adds what is there to partial sums; after the
 *                 rank's last micro-batch, one reduction sums over the ranks.
 *     ZeRO-2, 3   the place is in one of a few moving buffers; there is no flat array. Each round is reduced: the
 *                 owners of slices get the gradients of all ranks, or their sum, and keep the partial sums.
 *
 * Then gradient_groups_total() is the sum: of the whole group under ZeRO-0, otherwise of this rank's slice. Frozen
 * groups are neither summed nor reduced, and their totals are 0.
 *
 * Partial sums are the roots of canonical_runs.h. If every rank's run is one root (equal runs of a power of two), the
 * library's collectives add them in that order: an all-reduce where totals are wanted on all ranks, otherwise a
 * reduce-scatter of each group with even slices (slices.h), as of the rounds of ZeRO-2 and 3 on a power of two of ranks.
 * Where hosts have equally many ranks, a power of two of neighbors, these carry sums over the network once for each
 * host. In other cases ranks send their roots to the owners of the slices, which add them.
 *
 * With gradients in bf16 every leaf and every sum is rounded, on one rank too, and half the bytes move.
 *
 * Not thread-safe. Reductions start in the order of calls, which is the same on all ranks of the data axis, and so is
 * that in which they are finished.
 */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_GRADIENT_GROUPS_H
#define WEFT_TRAINING_PARALLEL_SHARDING_GRADIENT_GROUPS_H

#include "base/error.h"
#include "training/parallel/sharding/canonical_runs.h"
#include "training/parallel/sharding/slices.h"

struct gradient_groups_config {
    weft_context *context;
    weft_comm *comm;                  /**< of the data axis */
    struct device *device;            /**< of f32, with activations of bf16 */
    const struct group_range *ranges; /**< of the groups; copied */
    uint32_t group_count;
    size_t elements;        /**< of the flat array */
    uint32_t micro_batches; /**< of a global batch, at least one for each rank */
    const uint32_t
        *shares;         /**< ZeRO-0 and 1: of them, those of each rank; borrowed; NULL: they differ by at most one */
    uint32_t zero;       /**< 0 to 3; 0 where there is one rank */
    weft_type type;      /**< WEFT_F32 or WEFT_BF16 */
    size_t bucket_bytes; /**< neighboring groups that start one after the other share an all-reduce up to this size */
    uint32_t buffers;    /**< moving buffers, ZeRO-2 and 3 */
    size_t buffer_elements; /**< of each */
    double *waited;         /**< where the time of waiting for other ranks is added; NULL: nowhere */
};

/** Reductions by slices that are under way at a time: starting one more first finishes the oldest. */
#define GRADIENT_EXCHANGES 2

struct gradient_groups;

/** Collective. Errors: MEMORY, and those of weft_comm_duplicate(). */
weft_status gradient_groups_open(const struct gradient_groups_config *config, struct gradient_groups **groups,
                                 struct error *error);
void gradient_groups_close(struct gradient_groups *groups);

/** Bytes of a rank, by kind. */
struct gradient_memory {
    size_t gradients;    /**< the flat array, or the moving buffers */
    size_t partial_sums; /**< of the flat array, or of the slices */
    size_t exchanges;    /**< what moves in bf16 or slice by slice */
};

/** What rank `rank` of `ranks` allocates; context, communicator and device of `config` are not used. */
struct gradient_memory gradient_groups_memory(const struct gradient_groups_config *config, uint32_t rank,
                                              uint32_t ranks);

/** The micro-batches that a rank computes. */
struct micro_batch_share gradient_groups_share(const struct gradient_groups_config *config, uint32_t rank,
                                               uint32_t ranks);

/** Where the backward pass writes the gradient of a group: `buffer` and the offset within it apply to ZeRO-2 and 3.
 * NULL where the buffer is UINT32_MAX. */
float *gradient_groups_place(struct gradient_groups *groups, uint32_t group, uint32_t buffer, size_t offset);

/** ZeRO-0 and 1: the place holds the gradient of this rank's next micro-batch, which is rounded if asked for. */
void gradient_groups_add(struct gradient_groups *groups, uint32_t group);

/**
 * Start a reduction: after the last micro-batch (`round` UINT32_MAX), or of round `round` under ZeRO-2 and 3, where the
 * place is in a buffer. The place must be left alone until the reduction is finished. A rank without a micro-batch in
 * that round calls it, too. On one rank there is nothing to do.
 *
 * Errors: those of weft_alltoallv(), weft_reduce_scatter() and weft_allreduce(); the groups may only be closed then.
 */
weft_status gradient_groups_reduce_start(struct gradient_groups *groups, uint32_t group, uint32_t round,
                                         uint32_t buffer, size_t offset, struct error *error);

/** The same of a gradient that lies at `place`, in the caller's memory; NULL from a rank without a micro-batch. */
weft_status gradient_groups_reduce_place(struct gradient_groups *groups, uint32_t group, uint32_t round, float *place,
                                         struct error *error);

weft_status gradient_groups_reduce_finish(struct gradient_groups *groups, uint32_t group, uint32_t round,
                                          struct error *error);

/** Whether a reduction could start now without waiting for an earlier one. */
bool gradient_groups_can_start(const struct gradient_groups *groups);

/** The total of this rank's slice, which may be changed; it is valid until the next step writes gradients. */
float *gradient_groups_total(struct gradient_groups *groups, uint32_t group, struct group_slice *slice);

/** total += other, of the slice's elements; rounded if gradients are. */
void gradient_groups_add_total(struct gradient_groups *groups, uint32_t group, const float *other);

#endif
