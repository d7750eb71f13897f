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
 * (gemm_driver.cpp). Otherwise it reads them in place, b and a transposed a across their rows. Where rows are a multiple of
 * 2 KiB apart, what it reads falls into so few sets of the caches that the product takes up to twice as long (Zen 3: 42 GFLOP/s
 * at 4 KiB and 64 at 2 KiB, instead of 85). So tiles are as large as it copies them, if there are several; otherwise b is
 * copied here.
 */
#define COPIED_BELOW 0.0035
#define COPIED_LEAST 2          /* tiles of a product */
#define COPIED_EDGE  1024       /* above it an edge has more than TILE_MOST tiles: oneDNN takes memory in proportion */
#define STRIDE_SLOW  512        /* elements */
#define STRIDE_MORE  16         /* elements, a cache line, by which rows of a copy are longer */
#define PACKED_MOST  (96 << 10) /* elements of a copy, which stays in the L2 cache, unless it is TILE_GRAIN wide */
#define PACKED_INNER 8192       /* rows of a copy: with more it would take more than 2.5 MiB */

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

static bool is_copied(uint64_t rows, uint64_t columns)
{
    return 1 / (double)rows + 1 / (double)columns < COPIED_BELOW;
}

static uint64_t large_tiles_along(uint64_t length)
{
    const uint64_t count = divide_up(length, COPIED_EDGE);
    return count > TILE_MOST ? count : TILE_MOST;
}

/* As many tiles as there can be that oneDNN copies, the last ones, too; none if it does not copy the whole. */
static struct matmul_tiles cut_large(uint64_t rows, uint64_t columns)
{
    struct matmul_tiles best = {0};
    for (uint64_t of_rows = 1; of_rows <= large_tiles_along(rows); of_rows++)
        for (uint64_t of_columns = 1; of_columns <= large_tiles_along(columns); of_columns++) {
            const struct matmul_tiles tiles = tiles_of(rows, columns, of_rows, of_columns);
            if (!is_copied(tiles.rows, tiles.columns))
                break;
            if (is_copied(rows - (tiles.of_rows - 1) * tiles.rows, columns - (tiles.of_columns - 1) * tiles.columns) &&
                tiles.of_rows * tiles.of_columns > best.of_rows * best.of_columns)
                best = tiles;
        }
    return best;
}

struct matmul_tiles matmul_cut(enum kernel_set set, uint64_t rows, uint64_t columns, uint64_t inner, uint64_t stride_b)
{
    if (set == KERNEL_SET_AVX2) {
        const struct matmul_tiles large = cut_large(rows, columns);
        if (large.of_rows * large.of_columns >= COPIED_LEAST)
            return large;
    }
    struct matmul_tiles tiles = cut_small(rows, columns, inner);
    if (set != KERNEL_SET_AVX2 || stride_b == 0 || stride_b % STRIDE_SLOW != 0 || inner == 0 || inner > PACKED_INNER)
        return tiles;
    uint64_t most = PACKED_MOST / inner / TILE_GRAIN * TILE_GRAIN;
    most = most ? most : TILE_GRAIN;
    if (tiles.columns > most) {
        tiles.columns = most;
        tiles.of_columns = divide_up(columns, most);
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
