/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The canonical tree over blocks: T(0, n), split at the largest power of two below n, as all sums of Weft.
 *
 * The norm of a flat array is the root of tree_sum() over the blocks of device->sum_of_squares(). A block's sum is the
 * same wherever it is computed, so ranks that hold different blocks exchange block sums (tree_blocks() doubles) and all
 * get the same norm, bit for bit. A rank's share must therefore begin at a multiple of DEVICE_SQUARES_BLOCK.
 */
#ifndef WEFT_TRAINING_TENSOR_TREE_H
#define WEFT_TRAINING_TENSOR_TREE_H

#include "training/tensor/device.h"

/** How many blocks an array of `count` elements has. */
static inline size_t tree_blocks(size_t count)
{
    return (count + DEVICE_SQUARES_BLOCK - 1) / DEVICE_SQUARES_BLOCK;
}

/** The sum of `count` values in the canonical order; 0 for none. */
static inline double tree_sum(const double *values, size_t count)
{
    if (count <= 1)
        return count ? values[0] : 0.0;
    size_t half = 1;
    while (half * 2 < count)
        half *= 2;
    return tree_sum(values, half) + tree_sum(values + half, count - half);
}

#endif
