/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How work and memory are divided over the ranks: the micro-batches of a step, and the shards of optimizer state.
 */
#ifndef WEFT_TRAINING_PARALLEL_PARTITION_H
#define WEFT_TRAINING_PARALLEL_PARTITION_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- micro-batches ---- */

/**
 * The layout decides which rank computes which micro-batch, so that sums over a global batch have the same bits on any
 * number of ranks.
 *
 * A global batch is `total` micro-batches, numbered from 0. Their gradients are added in the canonical tree
 * T(0, total) over these numbers (the left-full binary tree, split at the largest power of two below n). Two layouts
 * give that tree:
 *
 *  - runs: rank r computes micro-batches [r x share, (r + 1) x share) and sums them locally. Then the ranks' sums are
 *    added in rank order. This is correct when share is a power of two, because every aligned run of a power of two is a
 *    subtree. It communicates once a step.
 *  - turns: in turn t, rank r computes micro-batch t x ranks + r. Each turn is summed over the ranks first, then the
 *    turns are summed. This is correct when the number of ranks is a power of two. It communicates once a turn.
 *
 * Runs are preferred. Where neither is correct (3 ranks with 3 micro-batches each), the layout is refused.
 */
enum micro_batch_layout {
    MICRO_BATCHES_IN_RUNS,
    MICRO_BATCHES_IN_TURNS,
};

struct micro_batches {
    enum micro_batch_layout layout;
    uint32_t total; /**< in the global batch */
    uint32_t share; /**< that one rank computes */
    uint32_t rank, ranks;
};

/** Lay `total` micro-batches out over the ranks. Errors: ARGUMENT when they cannot be divided; the message says which
 * numbers can. */
weft_status micro_batches_lay_out(uint32_t total, uint32_t rank, uint32_t ranks, struct micro_batches *result,
                                  struct error *error);

/** The number in the global batch of this rank's micro-batch `index`, 0 <= index < share. */
static inline uint32_t micro_batches_number(const struct micro_batches *layout, uint32_t index)
{
    return layout->layout == MICRO_BATCHES_IN_RUNS ? layout->rank * layout->share + index
                                                   : index * layout->ranks + layout->rank;
}

/* ---- shards ---- */

/**
 * Optimizer state in shards (Rajbhandari et al. 2020, "ZeRO", stage 1): each rank keeps the moments of one range of the
 * flat array, updates the weights of that range, and sends them to all others. The update is elementwise, so the bits
 * are those of a rank that holds everything.
 *
 * Ranges are whole blocks of DEVICE_SQUARES_BLOCK elements of nearly equal size; the first ranks have one block more.
 * Without sharding every rank's range is the whole array, and the collectives below do nothing.
 */
struct shards {
    weft_context *context;
    weft_comm *comm; /**< borrowed */
    bool sharded;
    uint32_t rank, ranks;
    size_t elements;                     /**< of the whole array */
    size_t first, count;                 /**< this rank's range */
    size_t *firsts, *counts;             /**< every rank's, where sharded */
    size_t *block_firsts, *block_counts; /**< the same in blocks of DEVICE_SQUARES_BLOCK elements */
};

weft_status shards_open(struct shards *shards, weft_context *context, weft_comm *comm, size_t elements, bool sharded,
                        struct error *error);
void shards_close(struct shards *shards);

/** Every rank's range of `array` to all ranks. Collective. */
weft_status shards_all_gather(const struct shards *shards, float *array, struct error *error);

/** Every rank's part of `sums` (device->sum_of_squares(), one per block of the whole array) to all ranks. Collective. */
weft_status shards_all_gather_sums(const struct shards *shards, double *sums, struct error *error);

#endif
