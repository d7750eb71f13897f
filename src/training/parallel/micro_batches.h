/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which rank computes which micro-batch, so that sums over a global batch have the same bits on any number of ranks.
 *
 * A global batch is `total` micro-batches, numbered from 0. Their gradients are to be added in the canonical tree T(0,
 * total) over these numbers (the left-full binary tree, split at the largest power of two below n). Two layouts give
 * that tree:
 *
 *  - runs: rank r computes the run [r x share, (r+1) x share), sums it locally, and the ranks' sums are added in rank
 *    order. Right when share is a power of two, as every aligned run of a power of two is a subtree. Communicates once.
 *  - turns: in turn t, rank r computes number t x ranks + r; each turn is summed over the ranks first, the turns
 *    afterwards. Right when the number of ranks is a power of two. Communicates once a turn.
 *
 * Runs are preferred. Where neither is right (3 ranks with 3 micro-batches each), the layout is refused.
 */
#ifndef WEFT_TRAINING_PARALLEL_MICRO_BATCHES_H
#define WEFT_TRAINING_PARALLEL_MICRO_BATCHES_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

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

/** Lay `total` micro-batches out over the ranks; WEFT_ERROR_ARGUMENT when they cannot be divided, saying what would do.
 */
weft_status micro_batches_lay_out(uint32_t total, uint32_t rank, uint32_t ranks, struct micro_batches *result,
                                  struct error *error);

/** The number in the global batch of this rank's micro-batch `index`, 0 <= index < share. */
static inline uint32_t micro_batches_number(const struct micro_batches *layout, uint32_t index)
{
    return layout->layout == MICRO_BATCHES_IN_RUNS ? layout->rank * layout->share + index
                                                   : index * layout->ranks + layout->rank;
}

#endif
