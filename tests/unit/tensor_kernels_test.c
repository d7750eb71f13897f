/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel of the fast device, for each instruction set that this processor has, against the reference in double
 * precision, at sizes that are no multiple of anything. Inputs are the same f32 numbers; what is compared is relative
 * to the largest result.
 */
#include "training/tensor/adamw.h"
#include "training/tensor/devices.h"
#include "training/tensor/kernels/kernels.h"
#include "training/tensor/tree.h"

#include "tensor_support.h"

static struct device *fast, *exact;
static const size_t widths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 130, 257};
#define WIDTHS (sizeof widths / sizeof *widths)

/* The same numbers on both devices. */
struct pair {
    void *fast, *exact;
};

static struct pair pair_random(size_t count, double deviation, uint64_t seed)
{
    return (struct pair){make_random(fast, count, deviation, seed), make_random(exact, count, deviation, seed)};
}

static void pair_release(struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fast->release(fast, pairs[i].fast);
        exact->release(exact, pairs[i].exact);
    }
}

static void expect_near(struct pair pair, size_t count, double tolerance, const char *what, size_t a, size_t b,
                        size_t c)
{
    double distance = distance_of(fast, pair.fast, exact, pair.exact, count);
    if (!(distance <= tolerance))
        fail_msg("%s at %zu x %zu x %zu with %s: relative error %g is above %g", what, a, b, c, fast->kernels, distance,
                 tolerance);
}

static void vectors(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i];
        struct pair p[] = {pair_random(n, 1, 1), pair_random(n, 1, 2), pair_random(n, 3, 3)};
        fast->add(fast, n, p[0].fast, p[1].fast, p[0].fast);
        exact->add(exact, n, p[0].exact, p[1].exact, p[0].exact);
        expect_near(p[0], n, 1e-7, "add", n, 1, 1);
        fast->scale(fast, n, 0.7, p[0].fast);
        exact->scale(exact, n, 0.7, p[0].exact);
        expect_near(p[0], n, 2e-7, "scale", n, 1, 1);
        fast->gelu_forward(fast, n, p[2].fast, p[1].fast);
        exact->gelu_forward(exact, n, p[2].exact, p[1].exact);
        expect_near(p[1], n, 3e-7, "gelu_forward", n, 1, 1);
        fast->fill(fast, n, 0.1, p[0].fast);
        exact->fill(exact, n, 0.1, p[0].exact);
        expect_near(p[0], n, 1e-7, "fill", n, 1, 1);
        pair_release(p, 3);
    }
}

static void gelu_of_extreme_values(void **state)
{
    static const float values[] = {-INFINITY, -1e30f, -40, -10, -5, -1e-20f, 0, 1e-20f, 5, 10, 40, 1e30f};
    float out[sizeof values / sizeof *values];
    for (size_t i = 4; i < sizeof values / sizeof *values; i++) {
        fast->gelu_forward(fast, 1, &values[i], &out[i]);
        double x = values[i], right = 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
        assert_true(fabs(out[i] - right) <= 1e-6 * fabs(x));
    }
    float huge[2] = {-1e4f, 1e4f};
    fast->gelu_forward(fast, 2, huge, huge);
    assert_true(fabsf(huge[0]) < 1e-20f && huge[1] == 1e4f);
    float none = NAN;
    fast->gelu_forward(fast, 1, &none, &none);
    assert_true(isnan(none));
}

static void adamw(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i];
        struct pair p[] = {pair_random(n, 1, 1), pair_random(n, 1, 2), pair_random(n, 0.1, 3), pair_random(n, 0.1, 4)};
        for (size_t k = 0; k < n; k++) { /* second moments are squares */
            put(fast, p[3].fast, k, fabs(get(fast, p[3].fast, k)));
            put(exact, p[3].exact, k, fabs(get(exact, p[3].exact, k)));
        }
        for (uint64_t number = 1; number < 4; number++) {
            struct adamw step = adamw_step(number, 1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5);
            fast->adamw(fast, &step, n, p[0].fast, p[1].fast, p[2].fast, p[3].fast, NULL);
            exact->adamw(exact, &step, n, p[0].exact, p[1].exact, p[2].exact, p[3].exact, NULL);
        }
        expect_near(p[0], n, 1e-6, "adamw parameters", n, 1, 1);
        expect_near(p[2], n, 1e-6, "adamw first moments", n, 1, 1);
        expect_near(p[3], n, 1e-6, "adamw second moments", n, 1, 1);
        pair_release(p, 4);
    }
}

static void other_optimizers(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i];
        struct pair p[] = {pair_random(n, 1, 1), pair_random(n, 1, 2), pair_random(n, 0.1, 3), pair_random(n, 0.1, 4)};
        for (size_t k = 0; k < n; k++) { /* second moments are squares */
            put(fast, p[3].fast, k, fabs(get(fast, p[3].fast, k)));
            put(exact, p[3].exact, k, fabs(get(exact, p[3].exact, k)));
        }
        const struct adamw direction = adamw_step(3, 1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5);
        const struct sgd step = {.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .gradient_scale = 0.5};
        fast->sgd(fast, &step, n, p[0].fast, p[1].fast, p[2].fast);
        exact->sgd(exact, &step, n, p[0].exact, p[1].exact, p[2].exact);
        expect_near(p[0], n, 1e-6, "sgd parameters", n, 1, 1);
        expect_near(p[2], n, 1e-6, "sgd moments", n, 1, 1);
        fast->adamw_direction(fast, &direction, n, p[0].fast, p[1].fast, p[2].fast, p[3].fast);
        exact->adamw_direction(exact, &direction, n, p[0].exact, p[1].exact, p[2].exact, p[3].exact);
        expect_near(p[1], n, 1e-6, "adamw_direction", n, 1, 1);
        fast->combine(fast, n, 0.3, p[0].fast, -2, p[1].fast, p[1].fast);
        exact->combine(exact, n, 0.3, p[0].exact, -2, p[1].exact, p[1].exact);
        expect_near(p[1], n, 1e-6, "combine", n, 1, 1);
        pair_release(p, 4);
    }
}

static void sums(void **state)
{
    static const size_t counts[] = {1, 7, 8, 9, 4095, 4096, 4097, 10000, 16384, 16385, 40000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct pair p[] = {pair_random(counts[i], 1, i)};
        double of_fast[10] = {0}, of_exact[10] = {0};
        fast->sum_of_squares(fast, counts[i], p[0].fast, of_fast);
        exact->sum_of_squares(exact, counts[i], p[0].exact, of_exact);
        for (size_t k = 0; k < tree_blocks(counts[i]); k++)
            assert_true(fabs(of_fast[k] - of_exact[k]) <= 1e-13 * of_exact[k]);
        pair_release(p, 1);
    }
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t rows = 19, width = widths[i];
        struct pair p[] = {pair_random(rows * width, 1, i), pair_random(width, 1, 9)};
        fast->column_sums(fast, rows, width, p[0].fast, p[1].fast);
        exact->column_sums(exact, rows, width, p[0].exact, p[1].exact);
        expect_near(p[1], width, 2e-6, "column_sums", rows, width, 1);
        pair_release(p, 2);
    }
}

static void matrix_products(void **state)
{
    static const size_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},      {17, 33, 9},     {64, 48, 32},    {5, 1, 65},
                                      {1, 100, 63}, {40, 1024, 64}, {30, 1536, 100}, {1100, 1000, 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < 16; variant++) {
            bool transpose_a = variant & 1, transpose_b = variant & 2, accumulate = variant & 4, gaps = variant & 8;
            size_t rows = sizes[i][0], columns = sizes[i][1], inner = sizes[i][2], gap = gaps ? 3 : 0;
            size_t stride_a = (transpose_a ? rows : inner) + gap, stride_b = (transpose_b ? inner : columns) + gap;
            struct pair p[] = {pair_random((transpose_a ? inner : rows) * stride_a, 1, 1),
                               pair_random((transpose_b ? columns : inner) * stride_b, 1, 2),
                               pair_random(columns, 1, 3), pair_random(rows * (columns + gap), 1, 4)};
            struct matmul matmul = {.rows = rows,
                                    .columns = columns,
                                    .inner = inner,
                                    .transpose_a = transpose_a,
                                    .transpose_b = transpose_b,
                                    .accumulate = accumulate,
                                    .a = p[0].fast,
                                    .b = p[1].fast,
                                    .bias = accumulate ? NULL : p[2].fast,
                                    .c = p[3].fast,
                                    .stride_a = gaps ? stride_a : 0,
                                    .stride_b = gaps ? stride_b : 0,
                                    .stride_c = gaps ? columns + gap : 0};
            fast->matmul(fast, &matmul);
            finish_device(fast);
            matmul.a = p[0].exact;
            matmul.b = p[1].exact;
            matmul.bias = accumulate ? NULL : p[2].exact;
            matmul.c = p[3].exact;
            exact->matmul(exact, &matmul);
            expect_near(p[3], rows * (columns + gap), 2e-6, "matmul", rows, columns, inner);
            pair_release(p, 4);
        }
}

static void layer_norm(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t rows = 135, width = widths[i], n = rows * width;
        enum { X, GAIN, BIAS, OUT, MEANS, RECIPROCALS, GRADIENT, TO_X, TO_GAIN, TO_BIAS, ALL };
        struct pair p[ALL] = {pair_random(n, 2, 1),     pair_random(width, 1, 3), pair_random(width, 1, 4),
                              pair_random(n, 1, 6),     pair_random(rows, 1, 7),  pair_random(rows, 1, 8),
                              pair_random(n, 1, 9),     pair_random(n, 1, 10),    pair_random(width, 1, 11),
                              pair_random(width, 1, 12)};
        if (width < 3) { /* two numbers minus their mean are nearly nothing: compare where rounding does not rule */
            pair_release(p, ALL);
            continue;
        }
        fast->layer_norm_forward(fast, rows, width, 1e-5, p[X].fast, p[GAIN].fast, p[BIAS].fast, p[OUT].fast,
                                 p[MEANS].fast, p[RECIPROCALS].fast);
        exact->layer_norm_forward(exact, rows, width, 1e-5, p[X].exact, p[GAIN].exact, p[BIAS].exact, p[OUT].exact,
                                  p[MEANS].exact, p[RECIPROCALS].exact);
        expect_near(p[OUT], n, 1e-5, "layer_norm_forward", rows, width, 1);
        expect_near(p[MEANS], rows, 2e-6, "layer_norm_forward means", rows, width, 1);
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            fast->layer_norm_backward(fast, rows, width, p[GRADIENT].fast, p[X].fast, p[GAIN].fast, p[MEANS].fast,
                                      p[RECIPROCALS].fast, accumulate, p[TO_X].fast, p[TO_GAIN].fast, p[TO_BIAS].fast);
            exact->layer_norm_backward(exact, rows, width, p[GRADIENT].exact, p[X].exact, p[GAIN].exact, p[MEANS].exact,
                                       p[RECIPROCALS].exact, accumulate, p[TO_X].exact, p[TO_GAIN].exact,
                                       p[TO_BIAS].exact);
            expect_near(p[TO_X], n, 3e-5, "layer_norm_backward", rows, width, 1);
            expect_near(p[TO_GAIN], width, 1e-5, "layer_norm_backward gain", rows, width, 1);
            expect_near(p[TO_BIAS], width, 1e-5, "layer_norm_backward bias", rows, width, 1);
        }
        pair_release(p, ALL);
    }
}

static void rms_norm(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t rows = 135, width = widths[i], n = rows * width;
        enum { X, GAIN, OUT, RECIPROCALS, GRADIENT, TO_X, TO_GAIN, ALL };
        struct pair p[ALL] = {pair_random(n, 2, 1),    pair_random(width, 1, 2), pair_random(n, 1, 3),
                              pair_random(rows, 1, 4), pair_random(n, 1, 5),     pair_random(n, 1, 6),
                              pair_random(width, 1, 7)};
        fast->rms_norm_forward(fast, rows, width, 1e-6, p[X].fast, p[GAIN].fast, p[OUT].fast, p[RECIPROCALS].fast);
        exact->rms_norm_forward(exact, rows, width, 1e-6, p[X].exact, p[GAIN].exact, p[OUT].exact,
                                p[RECIPROCALS].exact);
        expect_near(p[OUT], n, 2e-6, "rms_norm_forward", rows, width, 1);
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            fast->rms_norm_backward(fast, rows, width, p[GRADIENT].fast, p[X].fast, p[GAIN].fast, p[RECIPROCALS].fast,
                                    accumulate, p[TO_X].fast, p[TO_GAIN].fast);
            exact->rms_norm_backward(exact, rows, width, p[GRADIENT].exact, p[X].exact, p[GAIN].exact,
                                     p[RECIPROCALS].exact, accumulate, p[TO_X].exact, p[TO_GAIN].exact);
            expect_near(p[TO_X], n, 5e-6, "rms_norm_backward", rows, width, 1);
            expect_near(p[TO_GAIN], width, 5e-6, "rms_norm_backward gain", rows, width, 1);
        }
        pair_release(p, ALL);
    }
}

static void swiglu(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t rows = 7, width = widths[i], n = rows * width;
        struct pair p[] = {pair_random(2 * n, 2, 1), pair_random(n, 1, 2), pair_random(n, 1, 3),
                           pair_random(2 * n, 1, 4)};
        fast->swiglu_forward(fast, rows, width, p[0].fast, p[1].fast);
        exact->swiglu_forward(exact, rows, width, p[0].exact, p[1].exact);
        expect_near(p[1], n, 1e-6, "swiglu_forward", rows, width, 1);
        fast->swiglu_backward(fast, rows, width, p[0].fast, p[2].fast, p[3].fast);
        exact->swiglu_backward(exact, rows, width, p[0].exact, p[2].exact, p[3].exact);
        expect_near(p[3], 2 * n, 1e-6, "swiglu_backward", rows, width, 1);
        fast->swiglu_backward(fast, rows, width, p[0].fast, p[2].fast, p[0].fast); /* in place */
        for (size_t k = 0; k < 2 * n; k++)
            assert_true(get(fast, p[0].fast, k) == get(fast, p[3].fast, k));
        pair_release(p, 4);
    }
}

static void rotary(void **state)
{
    static const size_t head_widths[] = {2, 6, 32, 34, 64, 128};
    for (size_t i = 0; i < sizeof head_widths / sizeof *head_widths; i++)
        for (int back = 0; back < 2; back++) {
            struct rotary shape = {.batch = 2,
                                   .sequence = 37,
                                   .first = 3 * (size_t)back,
                                   .heads = 3,
                                   .head_width = head_widths[i],
                                   .stride = 4 * head_widths[i] + 1,
                                   .base = 10000,
                                   .back = back};
            size_t count = shape.batch * shape.sequence * shape.stride;
            struct pair p[] = {pair_random(count, 1, 1)};
            fast->rotary(fast, &shape, p[0].fast);
            finish_device(fast);
            exact->rotary(exact, &shape, p[0].exact);
            expect_near(p[0], count, 1e-6, "rotary", shape.sequence, shape.heads, shape.head_width);
            pair_release(p, 1);
        }
}

static void gelu_backward(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t rows = 7, width = widths[i], n = rows * width;
        struct pair p[] = {pair_random(n, 2, 1), pair_random(n, 1, 2), pair_random(width, 1, 3)};
        fast->gelu_backward(fast, rows, width, p[0].fast, p[1].fast, p[2].fast);
        exact->gelu_backward(exact, rows, width, p[0].exact, p[1].exact, p[2].exact);
        expect_near(p[1], n, 1e-6, "gelu_backward", rows, width, 1);
        expect_near(p[2], width, 2e-6, "gelu_backward bias", rows, width, 1);
        pair_release(p, 3);
    }
}

static void attention(void **state)
{
    static const size_t sizes[][5] = {{1, 1, 1, 1, 1},   {2, 5, 3, 1, 4},  {1, 16, 2, 2, 16},
                                      {1, 17, 1, 1, 33}, {2, 64, 2, 2, 8}, {1, 65, 4, 2, 32},
                                      {1, 130, 2, 2, 5}, {1, 8, 1, 1, 64}, {1, 200, 6, 3, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int causal = 0; causal < 2; causal++) {
            struct attention shape = {.batch = sizes[i][0],
                                      .sequence = sizes[i][1],
                                      .heads = sizes[i][2],
                                      .kv_heads = sizes[i][3],
                                      .head_width = sizes[i][4],
                                      .causal = causal};
            size_t tokens = shape.batch * shape.sequence, width = shape.heads * shape.head_width;
            size_t row = attention_row(&shape);
            struct pair p[] = {pair_random(tokens * row, 1, 1), pair_random(tokens * width, 1, 2),
                               pair_random(tokens * shape.heads, 1, 3), pair_random(tokens * width, 1, 4),
                               pair_random(tokens * row, 1, 5)};
            fast->attention_forward(fast, &shape, p[0].fast, p[1].fast, p[2].fast);
            exact->attention_forward(exact, &shape, p[0].exact, p[1].exact, p[2].exact);
            expect_near(p[1], tokens * width, 5e-6, "attention_forward", shape.sequence, shape.heads, shape.head_width);
            expect_near(p[2], tokens * shape.heads, 5e-6, "attention_forward logsums", shape.sequence, shape.heads,
                        shape.head_width);
            fast->attention_backward(fast, &shape, p[0].fast, p[1].fast, p[2].fast, p[3].fast, p[4].fast);
            exact->attention_backward(exact, &shape, p[0].exact, p[1].exact, p[2].exact, p[3].exact, p[4].exact);
            expect_near(p[4], tokens * row, 1e-5, "attention_backward", shape.sequence, shape.heads, shape.head_width);

            /* From the middle on: the same rows, and those before are left alone. */
            shape.first = shape.sequence / 2;
            void *again = make_array(fast, tokens * width);
            fast->attention_forward(fast, &shape, p[0].fast, again, NULL);
            for (size_t t = 0; t < tokens; t++)
                for (size_t d = 0; d < width; d++) {
                    double right = t % shape.sequence < shape.first ? 0 : get(fast, p[1].fast, t * width + d);
                    assert_true(fabs(get(fast, again, t * width + d) - right) < 1e-5);
                }
            fast->release(fast, again);
            pair_release(p, 5);
        }
}

static void embedding(void **state)
{
    enum { TOKENS = 23 };
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t batch = 3, sequence = 6, width = widths[i], n = batch * sequence * width;
        int32_t tokens[18];
        for (size_t k = 0; k < 18; k++)
            tokens[k] = (int32_t)random_below(5, k, TOKENS / 2); /* some come twice */
        struct pair p[] = {pair_random(TOKENS * width, 1, 1), pair_random(9 * width, 1, 2), pair_random(n, 1, 3)};
        fast->embedding_forward(fast, batch, sequence, width, 2, tokens, p[0].fast, p[1].fast, p[2].fast);
        exact->embedding_forward(exact, batch, sequence, width, 2, tokens, p[0].exact, p[1].exact, p[2].exact);
        expect_near(p[2], n, 1e-7, "embedding_forward", batch * sequence, width, 1);
        fast->embedding_backward(fast, batch, sequence, width, tokens, p[2].fast, p[0].fast, p[1].fast);
        exact->embedding_backward(exact, batch, sequence, width, tokens, p[2].exact, p[0].exact, p[1].exact);
        expect_near(p[0], TOKENS * width, 1e-6, "embedding_backward", batch * sequence, width, 1);
        expect_near(p[1], 9 * width, 1e-6, "embedding_backward positions", batch * sequence, width, 1);
        fast->embedding_forward(fast, batch, sequence, width, 2, tokens, p[0].fast, NULL, p[2].fast);
        exact->embedding_forward(exact, batch, sequence, width, 2, tokens, p[0].exact, NULL, p[2].exact);
        expect_near(p[2], n, 1e-6, "embedding_forward without positions", batch * sequence, width, 1);
        fast->embedding_backward(fast, batch, sequence, width, tokens, p[2].fast, p[0].fast, NULL);
        exact->embedding_backward(exact, batch, sequence, width, tokens, p[2].exact, p[0].exact, NULL);
        expect_near(p[0], TOKENS * width, 1e-6, "embedding_backward without positions", batch * sequence, width, 1);
        pair_release(p, 3);
    }
}

static void cross_entropy(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t rows = 6, classes = widths[i], stride = classes + 5, n = rows * stride;
        int32_t targets[6];
        double of_fast[6], of_exact[6];
        for (size_t k = 0; k < rows; k++)
            targets[k] = (int32_t)random_below(8, k, classes);
        for (double smoothing = 0; smoothing < 0.2; smoothing += 0.1) {
            struct pair p[] = {pair_random(n, 10, 1)};
            fast->cross_entropy(fast, rows, classes, stride, targets, smoothing, 0, p[0].fast, of_fast);
            exact->cross_entropy(exact, rows, classes, stride, targets, smoothing, 0, p[0].exact, of_exact);
            expect_near(p[0], n, 0, "cross_entropy's untouched logits", rows, classes, 1);
            for (size_t k = 0; k < rows; k++)
                assert_true(fabs(of_fast[k] - of_exact[k]) < 1e-5);
            fast->cross_entropy(fast, rows, classes, stride, targets, smoothing, 0.25, p[0].fast, of_fast);
            exact->cross_entropy(exact, rows, classes, stride, targets, smoothing, 0.25, p[0].exact, of_exact);
            /* Where the model is sure, gradients are differences of nearly equal numbers: as exact as the scale. */
            for (size_t k = 0; k < rows; k++) {
                assert_true(fabs(of_fast[k] - of_exact[k]) < 1e-5);
                for (size_t j = k * stride; j < k * stride + classes; j++)
                    assert_true(fabs(get(fast, p[0].fast, j) - get(exact, p[0].exact, j)) < 0.25 * 2e-6);
            }
            pair_release(p, 1);
        }
    }
}

/* Cut after any class, the losses and gradients are those of cross_entropy(). */
static void cross_entropy_of_divided_classes(void **state)
{
    enum { ROWS = 6, CLASSES = 300, CUTS = 4 };
    const size_t cut[CUTS + 1] = {0, 1, 130, 131, CLASSES};
    struct device *const devices[] = {fast, exact};
    int32_t targets[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        targets[i] = (int32_t)random_below(8, i, CLASSES);
    for (size_t d = 0; d < 2; d++)
        for (double smoothing = 0; smoothing < 0.2; smoothing += 0.1) {
            struct device *device = devices[d];
            const size_t size = weft_type_size(device->type);
            struct pair whole = pair_random(ROWS * CLASSES, 10, 1), parts[CUTS];
            struct class_sums sums[CUTS * ROWS];
            struct divided_classes shape[CUTS];
            int32_t own_targets[CUTS][ROWS];
            double expected[ROWS], losses[ROWS];
            void *all = d ? whole.exact : whole.fast;
            for (size_t r = 0; r < CUTS; r++) {
                parts[r] = pair_random(ROWS * CLASSES, 10, 1); /* the same numbers */
                for (size_t i = 0; i < ROWS; i++)
                    own_targets[r][i] = targets[i] - (int32_t)cut[r];
                shape[r] = (struct divided_classes){.rows = ROWS,
                                                    .classes = cut[r + 1] - cut[r],
                                                    .all = CLASSES,
                                                    .ranks = CUTS,
                                                    .stride = CLASSES,
                                                    .targets = own_targets[r],
                                                    .smoothing = smoothing,
                                                    .scale = 0.25};
                device->class_sums(device, &shape[r], (char *)(d ? parts[r].exact : parts[r].fast) + cut[r] * size,
                                   sums + r * ROWS);
            }
            device->cross_entropy(device, ROWS, CLASSES, CLASSES, targets, smoothing, 0.25, all, expected);
            for (size_t r = 0; r < CUTS; r++) {
                void *part = d ? parts[r].exact : parts[r].fast;
                device->divided_cross_entropy(device, &shape[r], sums, (char *)part + cut[r] * size, losses);
                for (size_t i = 0; i < ROWS; i++) {
                    assert_true(fabs(losses[i] - expected[i]) < 1e-5);
                    for (size_t j = i * CLASSES + cut[r]; j < i * CLASSES + cut[r + 1]; j++)
                        assert_true(fabs(get(device, part, j) - get(device, all, j)) < 0.25 * 2e-6);
                }
                pair_release(&parts[r], 1);
            }
            pair_release(&whole, 1);
        }
}

/* The rows of tokens that another rank has are 0, and their gradients go nowhere. */
static void embedding_of_other_ranks_tokens(void **state)
{
    const int32_t tokens[] = {1, -1, -7, 0};
    const float table[] = {1, 2, 3, 4}, positions[] = {10, 20, 30, 40};
    float out[8], gradient[] = {1, 2, 3, 4, 5, 6, 7, 8}, to_table[4] = {0}, to_positions[4];
    fast->embedding_forward(fast, 2, 2, 2, 0, tokens, table, NULL, out);
    assert_memory_equal(out, ((float[]){3, 4, 0, 0, 0, 0, 1, 2}), sizeof out);
    fast->embedding_forward(fast, 2, 2, 2, 0, tokens, table, positions, out);
    assert_memory_equal(out, ((float[]){13, 24, 30, 40, 10, 20, 31, 42}), sizeof out);
    fast->embedding_backward(fast, 2, 2, 2, tokens, gradient, to_table, to_positions);
    assert_memory_equal(to_table, ((float[]){7, 8, 1, 2}), sizeof to_table);
    assert_memory_equal(to_positions, ((float[]){6, 8, 10, 12}), sizeof to_positions);
}

static void columns(void **state)
{
    const float from[] = {1, 2, 3, 4, 5, 6};
    float to[8] = {0};
    fast->copy_columns(fast, 2, 2, from + 1, 3, to + 1, 4);
    assert_memory_equal(to, ((float[]){0, 2, 3, 0, 0, 5, 6, 0}), sizeof to);
}

static void a_logit_that_is_no_number_makes_a_loss_that_is_none(void **state)
{
    float logits[40] = {0};
    int32_t target = 3;
    for (size_t i = 0; i < 40; i++) {
        double loss = 0;
        logits[i] = NAN;
        fast->cross_entropy(fast, 1, 40, 40, &target, 0, 0, logits, &loss);
        logits[i] = 0;
        assert_true(isnan(loss));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(gelu_of_extreme_values),
        cmocka_unit_test(adamw),
        cmocka_unit_test(other_optimizers),
        cmocka_unit_test(sums),
        cmocka_unit_test(matrix_products),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(rms_norm),
        cmocka_unit_test(swiglu),
        cmocka_unit_test(rotary),
        cmocka_unit_test(gelu_backward),
        cmocka_unit_test(attention),
        cmocka_unit_test(embedding),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(cross_entropy_of_divided_classes),
        cmocka_unit_test(embedding_of_other_ranks_tokens),
        cmocka_unit_test(columns),
        cmocka_unit_test(a_logit_that_is_no_number_makes_a_loss_that_is_none),
    };
    size_t count;
    const struct kernels *const *tables = kernels_supported(WEFT_F32, &count);
    int failed = 0;
    exact = open_device("reference", 1);
    for (size_t i = 0; i < count; i++)
        for (int threads = 1; threads <= TEST_THREADS; threads += 2) {
            if (cpu_open_with(tables[i], threads, &fast, NULL) != WEFT_OK)
                return 1;
            printf("kernels for %s, threads: %d\n", tables[i]->name, threads);
            failed += cmocka_run_group_tests(tests, NULL, NULL);
            fast->close(fast);
        }
    exact->close(exact);
    return failed;
}
