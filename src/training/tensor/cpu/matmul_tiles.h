/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a matrix product c = a b that oneDNN must not divide is cut into tiles of c: by its shape and the kernel set
 * alone, so that the bits do not depend on the number of threads. One thread computes a tile. Tiles are so large that
 * copying the operands of each takes negligible time, and as many as that allows. Pure functions.
 */
#ifndef WEFT_TRAINING_TENSOR_CPU_MATMUL_TILES_H
#define WEFT_TRAINING_TENSOR_CPU_MATMUL_TILES_H

#include "training/tensor/kernel_set.h"

#include <stddef.h>
#include <stdint.h>

struct matmul_tiles {
    uint64_t rows, columns;       /**< of a tile; the last of an edge may be smaller */
    uint64_t of_rows, of_columns; /**< how many there are along each edge */
    uint64_t packed_stride;       /**< a tile's part of b is copied to rows of so many elements; 0: it is not copied */
};

/**
 * The tiles of a product of `rows` x `inner` by `inner` x `columns` elements. `set` is that of products of f32, KERNEL_SETS
 * for other types. `stride_b` is the distance of b's rows, 0 if b is transposed.
 */
struct matmul_tiles matmul_cut(enum kernel_set set, uint64_t rows, uint64_t columns, uint64_t inner, uint64_t stride_b);

/** Copy b's part of a tile, `inner` rows of `columns` elements, to rows that are tiles->packed_stride elements apart. */
void matmul_pack(const struct matmul_tiles *tiles, uint64_t inner, uint64_t columns, const float *b, uint64_t stride_b,
                 float *packed);

#endif
