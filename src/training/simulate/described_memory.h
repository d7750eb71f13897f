/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The memory of a rank under a described implementation, for plans that Weft does not run: what `weft train` itself takes
 * is in training/parallel/execute/memory.h, to the byte.
 *
 *     weights, gradients    bytes for each parameter of the stage, of struct implementation; ZeRO-2 and 3 divide gradients
 *                           over the data axis, ZeRO-3 weights
 *     optimizer             the same; ZeRO-1 to 3 divide it
 *     activations           what layers keep from forward to backward, for each micro-batch under way: their inputs, and
 *                           what model_get_layer() counts for the types; with stored scores, for each score softmax's
 *                           output, dropout's mask and output; a byte for each row element that dropout drops. Weft's
 *                           layers come to the formula of Korthikanti et al. 2022, table 2. Recomputed layers keep
 *                           the input of each checkpoint
 *     working               the largest checkpoint's activations while it is recomputed, gradients of rows, and the
 *                           logits' copies in f32
 *     runtime               of the implementation: contexts, workspaces, buckets of communication
 *
 * Pure; thread-safe.
 */
#ifndef WEFT_TRAINING_SIMULATE_DESCRIBED_MEMORY_H
#define WEFT_TRAINING_SIMULATE_DESCRIBED_MEMORY_H

#include "training/simulate/work.h"

/** The stage of a rank, or all of its stages together. */
struct described_stage {
    const struct model_description *description; /**< divided over the tensor axis */
    const struct work_settings *settings;
    size_t first_layer, layer_end;
    double under_way; /**< micro-batches whose forward pass through this stage is over but not their backward pass, at
                         most: described_under_way() */
    uint32_t data;    /**< ranks of the data axis */
    uint32_t zero;    /**< 0 to 3 */
};

/** Bytes. */
struct described_memory {
    double weights, gradients, optimizer, activations, working, runtime;
};

struct described_memory described_memory_of(const struct described_stage *stage);
double described_memory_total(const struct described_memory *memory);

/**
 * Micro-batches under way on pipeline rank `rank` under 1F1B: as many as stages follow. Interleaved
 * (Narayanan et al. 2021, section 2.2) with `turns` stages a rank: in units of all stages of the rank.
 */
double described_under_way(uint32_t pipeline, uint32_t rank, uint32_t turns, uint32_t micro_batches);

#endif
