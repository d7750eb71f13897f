/* SPDX-License-Identifier: Apache-2.0 */
/* How products are cut: tiles cover c once, depend on the shape and the kernel set alone, and with AVX2 oneDNN does not read
 * rows that are a multiple of 2 KiB apart in place. */
#include "base/random.h"
#include "training/tensor/cpu/matmul_tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Any length, and often one that models have. */
static uint64_t length_of(uint64_t seed, uint64_t index)
{
    const uint64_t drawn = random_bits(seed, index);
    return drawn % 3 ? 1 + drawn / 3 % 9000 : (1 + drawn / 3 % 20) * 512;
}

static void tiles_cover_every_product_once(void **state)
{
    for (uint64_t seed = 0; seed < 20000; seed++) {
        const uint64_t rows = length_of(seed, 0), columns = length_of(seed, 1), inner = length_of(seed, 2);
        for (enum kernel_set set = KERNEL_SET_BASELINE; set <= KERNEL_SETS; set++) {
            const struct matmul_tiles tiles = matmul_cut(set, rows, columns, inner, columns);
            assert_true(tiles.of_rows * tiles.rows >= rows && (tiles.of_rows - 1) * tiles.rows < rows);
            assert_true(tiles.of_columns * tiles.columns >= columns &&
                        (tiles.of_columns - 1) * tiles.columns < columns);
        }
    }
}

static bool is_copied(uint64_t rows, uint64_t columns)
{
    return 1.0 / (double)rows + 1.0 / (double)columns < 0.0038;
}

static void rows_far_apart_are_not_read_in_place(void **state)
{
    for (uint64_t seed = 0; seed < 20000; seed++) {
        const uint64_t rows = length_of(seed, 0), columns = length_of(seed, 1), inner = 1 + length_of(seed, 2) % 8192;
        const struct matmul_tiles tiles = matmul_cut(KERNEL_SET_AVX2, rows, columns, inner, columns),
                                  transposed = matmul_cut(KERNEL_SET_AVX2, rows, columns, inner, 0);
        const uint64_t last_rows = rows - (tiles.of_rows - 1) * tiles.rows,
                       last_columns = columns - (tiles.of_columns - 1) * tiles.columns;
        const bool copied = is_copied(tiles.rows, tiles.columns) && is_copied(last_rows, last_columns);
        assert_true(copied || columns % 512 != 0 || tiles.packed_stride > 0);
        assert_true(tiles.packed_stride == 0 || tiles.packed_stride >= tiles.columns);
        assert_true(tiles.packed_stride == 0 || tiles.packed_stride % 512 != 0);
        assert_true(tiles.packed_stride * inner <= (112u << 10) || tiles.columns <= 64);
        assert_true(transposed.packed_stride == 0);
        assert_true(matmul_cut(KERNEL_SET_AVX512, rows, columns, inner, columns).packed_stride == 0);
    }
}

/* Threads of a rank have work: a product is not left to one of them if two would do. */
static void large_products_have_several_tiles(void **state)
{
    for (uint64_t seed = 0; seed < 20000; seed++) {
        const uint64_t rows = 384 + length_of(seed, 0), columns = 384 + length_of(seed, 1), inner = length_of(seed, 2);
        const struct matmul_tiles tiles = matmul_cut(KERNEL_SET_AVX2, rows, columns, 64 + inner, columns);
        assert_true(tiles.of_rows * tiles.of_columns > 1);
        assert_true(rows < 3072 || columns < 3072 || tiles.of_rows * tiles.of_columns >= 16);
    }
}

static void a_tile_of_b_is_copied(void **state)
{
    enum { INNER = 5, COLUMNS = 70, STRIDE = 1024 };
    const struct matmul_tiles tiles = {.columns = 128, .packed_stride = 144};
    float *b = malloc((size_t)INNER * STRIDE * sizeof *b), packed[INNER * 144];
    for (size_t i = 0; i < (size_t)INNER * STRIDE; i++)
        b[i] = (float)i;
    matmul_pack(&tiles, INNER, COLUMNS, b + 3, STRIDE, packed);
    for (size_t row = 0; row < INNER; row++)
        for (size_t column = 0; column < COLUMNS; column++)
            assert_true(packed[row * 144 + column] == (float)(row * STRIDE + 3 + column));
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_cover_every_product_once),
        cmocka_unit_test(rows_far_apart_are_not_read_in_place),
        cmocka_unit_test(large_products_have_several_tiles),
        cmocka_unit_test(a_tile_of_b_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
