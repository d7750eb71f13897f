/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small matrix products for attention, where one head's matrices fit into the L1 and L2 caches and half of the work is
 * masked out: c = a b or c += a b with the sums of PRODUCT_ROWS x 2 registers kept in registers. The columns of b and c
 * are a whole number of registers; a is read element by element, through two strides, so that it may be transposed.
 */

#if LANES == 16
#define PRODUCT_ROWS 8 /* of 32 registers, 16 hold sums */
#else
#define PRODUCT_ROWS 4 /* of 16 registers, 8 hold sums */
#endif

struct product {
    size_t rows;
    size_t columns; /* a multiple of LANES */
    size_t inner;
    const float *a;
    size_t a_row, a_inner; /* distance of the next row's, the next inner element */
    const float *b;
    size_t b_inner; /* distance of b's rows */
    float *c;
    size_t c_row;
    bool accumulate;
};

/* `rows` x `registers` sums; both are constants where this is called, so that the loops unroll. */
VECTOR_FUNCTION void product_tile(const struct product *product, const size_t rows, const size_t registers, size_t row,
                                  size_t column)
{
    vector sum[PRODUCT_ROWS][2] = {{{0}}};
    const float *a = product->a + row * product->a_row, *b = product->b + column;
    const size_t a_row = product->a_row, a_inner = product->a_inner, b_inner = product->b_inner;
    for (size_t k = product->inner; k > 0; k--, a += a_inner, b += b_inner) {
        vector right[2];
#pragma GCC unroll 2
        for (size_t j = 0; j < registers; j++)
            right[j] = vector_load(b + j * LANES);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++) {
            vector left = vector_of(a[i * a_row]);
#pragma GCC unroll 2
            for (size_t j = 0; j < registers; j++)
                sum[i][j] = vector_multiply_add(left, right[j], sum[i][j]);
        }
    }
    float *c = product->c + row * product->c_row + column;
    const size_t c_row = product->c_row;
    const bool accumulate = product->accumulate;
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (size_t j = 0; j < registers; j++) {
            float *place = c + i * c_row + j * LANES;
            vector_store(place, accumulate ? vector_load(place) + sum[i][j] : sum[i][j]);
        }
}

static void product_rows(const struct product *product, size_t row, size_t rows)
{
    size_t column = 0;
    for (; column + 2 * LANES <= product->columns; column += 2 * LANES) {
        if (rows == PRODUCT_ROWS)
            product_tile(product, PRODUCT_ROWS, 2, row, column);
        else
            product_tile(product, 1, 2, row, column);
    }
    if (column < product->columns) {
        if (rows == PRODUCT_ROWS)
            product_tile(product, PRODUCT_ROWS, 1, row, column);
        else
            product_tile(product, 1, 1, row, column);
    }
}

static void product_compute(const struct product *product)
{
    size_t row = 0;
    for (; row + PRODUCT_ROWS <= product->rows; row += PRODUCT_ROWS)
        product_rows(product, row, PRODUCT_ROWS);
    for (; row < product->rows; row++)
        product_rows(product, row, 1);
}
