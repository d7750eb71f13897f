/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The ranks that synchronize their batch norms, as layers see them: those of a data axis, each with one micro-batch of the
 * same size at a time. The executor (training/parallel/execute/) implements it.
 *
 * Let R ranks have y of `rows` rows each. Mean and variance are those of all R rows together: each rank gathers the means and
 * variances of all micro-batches and joins them in the order of ranks. In the backward pass (training/tensor/images.h)
 *
 *     gradient_y = gain reciprocal (d - gradient_bias / (R rows) - n gradient_gain / (R rows))
 *
 * has the sums of d and of d n over all ranks. Each rank gathers these sums and averages them over the ranks, so that
 * kernels divide by the rows that they have. The gradients of gain and bias remain those of the micro-batch.
 */
#ifndef WEFT_TRAINING_MODEL_NORM_GROUP_H
#define WEFT_TRAINING_MODEL_NORM_GROUP_H

#include <stddef.h>

/** One thread uses it, that of the model. All ranks run the same passes in the same order. */
struct norm_group {
    size_t ranks; /**< at least 2 */
    void *context;

    /**
     * The `bytes` bytes at `own` of all ranks, in their order, in memory of the device that is valid until the next call.
     * Waits for the device's kernels, and for the other ranks. It cannot fail by itself: its owner keeps a failure, after
     * which contents are undefined, and asks for it after a pass.
     */
    const void *(*gather)(void *context, const void *own, size_t bytes);
};

#endif
