/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/cpu/matmul_tiles.h"

#include <stdbool.h>
#include <string.h>

#define TILE_LEAST 384                 /* elements of an edge that is cut */
#define TILE_MOST  8                   /* tiles along an edge */
#define TILE_GRAIN 64                  /* edges are multiples of it */
#define TILE_WORTH ((double)(1 << 22)) /* multiply-adds from which a product of one tile is cut in two */

/*
 * With AVX2, oneDNN 2.6 copies the operands of a product of f32 only if 1 / rows + 1 / columns is less than 0.0038
 * (gemm_driver.cpp). Otherwise it reads them in place, and when rows of b are a multiple of 2 KiB apart, a panel of them
 * falls into so few sets of the caches that the product takes up to twice as long (Zen 3: 42 instead of 85 GFLOP/s at 4 KiB,
 * 64 at 2 KiB). Tiles are therefore large enough to be copied by it, where the product is; otherwise b is copied here.
 */
#define COPIED_BELOW 0.003
#define COPIED_MOST                                                                                                    \
    1024 /* elements of an edge, above which there are more than TILE_MOST: oneDNN takes memory for copies by it */
#define STRIDE_SLOW 512 /* elements */
#define STRIDE_MORE 16  /* elements, a cache line, by which rows of the copy are longer */
#define PACKED_MOST                                                                                                    \
    (96 << 10) /* elements of the copy, which stays in the L2 cache, unless its columns are TILE_GRAIN */

static uint64_t divide_up(uint64_t length, uint64_t by)
{
    return (length + by - 1) / by;
}

static uint64_t tile_edge(uint64_t length, uint64_t count)
{
    return count == 1 ? length : divide_up(divide_up(length, count), TILE_GRAIN) * TILE_GRAIN;
}

static struct matmul_tiles tiles_of(uint64_t rows, uint64_t columns, uint64_t of_rows, uint64_t of_columns)
{
    struct matmul_tiles tiles = {.rows = tile_edge(rows, of_rows), .columns = tile_edge(columns, of_columns)};
    tiles.of_rows = divide_up(rows, tiles.rows);
    tiles.of_columns = divide_up(columns, tiles.columns);
    return tiles;
}

static uint64_t tiles_along(uint64_t length)
{
    const uint64_t count = divide_up(length, TILE_LEAST);
    return count < TILE_MOST ? count : TILE_MOST;
}

static struct matmul_tiles cut_small(uint64_t rows, uint64_t columns, uint64_t inner)
{
    uint64_t of_rows = tiles_along(rows), of_columns = tiles_along(columns);
    if (of_rows * of_columns == 1 && (double)rows * (double)columns * (double)inner > TILE_WORTH) {
        of_rows += rows > columns;
        of_columns += rows <= columns;
    }
    return tiles_of(rows, columns, of_rows, of_columns);
}

static bool is_copied(const struct matmul_tiles *tiles)
{
    return 1 / (double)tiles->rows + 1 / (double)tiles->columns < COPIED_BELOW;
}

/* The longer edge is cut once more as long as the tiles are copied. */
static struct matmul_tiles cut_large(uint64_t rows, uint64_t columns)
{
    uint64_t of_rows = 1, of_columns = 1;
    struct matmul_tiles tiles = tiles_of(rows, columns, of_rows, of_columns), next = tiles;
    while (is_copied(&next)) {
        tiles = next;
        const bool by_rows = tiles.rows > tiles.columns;
        of_rows += by_rows;
        of_columns += !by_rows;
        if ((by_rows ? of_rows : of_columns) > TILE_MOST && (by_rows ? tiles.rows : tiles.columns) <= COPIED_MOST)
            break;
        next = tiles_of(rows, columns, of_rows, of_columns);
    }
    return tiles;
}

struct matmul_tiles matmul_cut(enum kernel_set set, uint64_t rows, uint64_t columns, uint64_t inner, uint64_t stride_b)
{
    if (set != KERNEL_SET_AVX2)
        return cut_small(rows, columns, inner);
    struct matmul_tiles tiles = cut_large(rows, columns);
    if (is_copied(&tiles))
        return tiles;
    tiles = cut_small(rows, columns, inner);
    if (stride_b == 0 || stride_b % STRIDE_SLOW != 0)
        return tiles;
    const uint64_t most = PACKED_MOST / inner / TILE_GRAIN * TILE_GRAIN;
    if (tiles.columns > most && tiles.columns > TILE_GRAIN) {
        tiles.columns = most > TILE_GRAIN ? most : TILE_GRAIN;
        tiles.of_columns = divide_up(columns, tiles.columns);
    }
    tiles.packed_stride = tiles.columns + STRIDE_MORE;
    return tiles;
}

void matmul_pack(const struct matmul_tiles *tiles, uint64_t inner, uint64_t columns, const float *b, uint64_t stride_b,
                 float *packed)
{
    for (uint64_t row = 0; row < inner; row++)
        memcpy(packed + row * tiles->packed_stride, b + row * stride_b, columns * sizeof *b);
}
