/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels with activations in bf16 or f16 do the same arithmetic as those with floats, between loads that lose nothing and
 * stores that round once: from the same numbers they give the float kernels' results, rounded, bit for bit. For each
 * instruction set that this processor has.
 */
#include "base/float_bits.h"
#include "training/tensor/devices.h"
#include "training/tensor/kernels/kernels.h"

#include "tensor_support.h"

static struct device *narrow, *wide, *threaded; /* the last: as `narrow`, with more threads */
static const size_t widths[] = {1, 2, 7, 15, 16, 17, 33, 64, 100, 257};
#define WIDTHS (sizeof widths / sizeof *widths)
#define ROWS   70 /* more than one part of a sum over rows */

static float widened(uint16_t half)
{
    return narrow->activations == WEFT_F16 ? float_from_f16(half) : float_from_bits((uint32_t)half << 16);
}

/* The same numbers as activations of both devices. */
struct pair {
    float *wide;
    uint16_t *narrow;
};

static struct pair pair_random(size_t count, double deviation, uint64_t seed)
{
    struct pair pair = {make_random(wide, count, deviation, seed),
                        narrow->allocate(narrow, count * sizeof(uint16_t), "a test", NULL)};
    narrow->to_activations(narrow, count, pair.wide, pair.narrow);
    for (size_t i = 0; i < count; i++)
        pair.wide[i] = widened(pair.narrow[i]);
    return pair;
}

static void release(struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        wide->release(wide, pairs[i].wide);
        narrow->release(narrow, pairs[i].narrow);
    }
}

static void expect_rounded(const struct pair *pair, size_t count, const char *what, size_t width)
{
    uint16_t *rounded = malloc(count * sizeof *rounded);
    narrow->to_activations(narrow, count, pair->wide, rounded);
    for (size_t i = 0; i < count; i++)
        if (rounded[i] != pair->narrow[i])
            fail_msg("%s of width %zu with %s: element %zu is %04x, not %04x", what, width, narrow->kernels, i,
                     pair->narrow[i], rounded[i]);
    free(rounded);
}

/* Halfway cases go to the even neighbor; infinities stay; what is not a number stays that. */
static void rounding_is_to_nearest_even(void **state)
{
    static const struct rounding {
        uint32_t from;
        uint16_t to;
    } of_bf16[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
                 {0xbf807fff, 0xbf80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f7fffff, 0x7f80},
                 {0x00000001, 0x0000}, {0x80000000, 0x8000}, {0x00008000, 0x0000}, {0x00018000, 0x0002}},
      of_f16[] = {{0x3f800000, 0x3c00}, {0x3f801000, 0x3c00}, {0x3f803000, 0x3c02}, {0x3f801001, 0x3c01},
                  {0xbf800fff, 0xbc00}, {0x7f800000, 0x7c00}, {0xff800000, 0xfc00}, {0x477fefff, 0x7bff},
                  {0x477ff000, 0x7c00}, {0x80000000, 0x8000}, {0x33000000, 0x0000}, {0x33c00000, 0x0002}};
    const struct rounding *cases = narrow->activations == WEFT_F16 ? of_f16 : of_bf16;
    for (size_t i = 0; i < sizeof of_bf16 / sizeof *of_bf16; i++) {
        float from;
        uint16_t to;
        memcpy(&from, &cases[i].from, sizeof from);
        narrow->to_activations(narrow, 1, &from, &to);
        if (to != cases[i].to)
            fail_msg("%08x becomes %04x, not %04x", cases[i].from, to, cases[i].to);
    }
    const float none = NAN;
    uint16_t to;
    narrow->to_activations(narrow, 1, &none, &to);
    assert_true(isnan(widened(to)));
}

static void widening_undoes_narrowing(void **state)
{
    enum { COUNT = 65536 + 3 };
    uint16_t *halves = calloc(COUNT, sizeof *halves);
    float *values = make_array(wide, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        halves[i] = (uint16_t)i;
    narrow->from_activations(narrow, COUNT, halves, values);
    for (size_t i = 0; i < COUNT; i++) {
        const float expected = widened(halves[i]);
        assert_true(isnan(expected) ? isnan(values[i]) : float_to_bits(values[i]) == float_to_bits(expected));
    }
    wide->release(wide, values);
    free(halves);
}

static void elements(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        const size_t width = widths[i], n = ROWS * width;
        struct pair p[] = {pair_random(2 * n, 2, 1), pair_random(2 * n, 1, 2), pair_random(2 * n, 1, 3)};
        float *x = make_random(wide, n, 1, 4), *of_wide = make_array(wide, n), *of_narrow = make_array(wide, n);
        wide->gelu_forward(wide, n, p[0].wide, p[1].wide);
        narrow->gelu_forward(narrow, n, p[0].narrow, p[1].narrow);
        expect_rounded(&p[1], n, "gelu_forward", width);
        wide->swiglu_forward(wide, ROWS, width, p[0].wide, p[1].wide);
        narrow->swiglu_forward(narrow, ROWS, width, p[0].narrow, p[1].narrow);
        expect_rounded(&p[1], n, "swiglu_forward", width);
        wide->add_branch(wide, n, x, p[0].wide, of_wide);
        narrow->add_branch(narrow, n, x, p[0].narrow, of_narrow);
        assert_memory_equal(of_wide, of_narrow, n * sizeof(float));
        wide->column_sums(wide, ROWS, width, p[0].wide, of_wide);
        narrow->column_sums(narrow, ROWS, width, p[0].narrow, of_narrow);
        assert_memory_equal(of_wide, of_narrow, width * sizeof(float));
        release(p, 3);

        struct pair q[] = {pair_random(2 * n, 2, 5), pair_random(n, 1, 6), pair_random(2 * n, 1, 7)};
        wide->swiglu_backward(wide, ROWS, width, q[0].wide, q[1].wide, q[2].wide);
        narrow->swiglu_backward(narrow, ROWS, width, q[0].narrow, q[1].narrow, q[2].narrow);
        expect_rounded(&q[2], 2 * n, "swiglu_backward", width);
        wide->gelu_backward(wide, ROWS, width, q[0].wide, q[1].wide, of_wide);
        narrow->gelu_backward(narrow, ROWS, width, q[0].narrow, q[1].narrow, of_narrow);
        expect_rounded(&q[1], n, "gelu_backward", width);
        assert_memory_equal(of_wide, of_narrow, width * sizeof(float));
        release(q, 3);
        wide->release(wide, x);
        wide->release(wide, of_wide);
        wide->release(wide, of_narrow);
    }
}

static void norms(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        const size_t width = widths[i], n = ROWS * width;
        float *x = make_random(wide, n, 2, 1), *gain = make_random(wide, width, 1, 2),
              *bias = make_random(wide, width, 1, 3);
        float *means = make_array(wide, ROWS), *reciprocals = make_array(wide, ROWS);
        float *to_x[2] = {make_array(wide, n), make_array(wide, n)};
        float *to_gain[2] = {make_array(wide, width), make_array(wide, width)};
        float *to_bias[2] = {make_array(wide, width), make_array(wide, width)};
        struct pair p[] = {pair_random(n, 1, 4), pair_random(n, 1, 5)};
        wide->layer_norm_forward(wide, ROWS, width, 1e-5, x, gain, bias, p[0].wide, means, reciprocals);
        narrow->layer_norm_forward(narrow, ROWS, width, 1e-5, x, gain, bias, p[0].narrow, means, reciprocals);
        expect_rounded(&p[0], n, "layer_norm_forward", width);
        wide->layer_norm_backward(wide, ROWS, width, p[1].wide, x, gain, means, reciprocals, false, to_x[0], to_gain[0],
                                  to_bias[0]);
        narrow->layer_norm_backward(narrow, ROWS, width, p[1].narrow, x, gain, means, reciprocals, false, to_x[1],
                                    to_gain[1], to_bias[1]);
        assert_memory_equal(to_x[0], to_x[1], n * sizeof(float));
        assert_memory_equal(to_gain[0], to_gain[1], width * sizeof(float));
        assert_memory_equal(to_bias[0], to_bias[1], width * sizeof(float));
        wide->rms_norm_forward(wide, ROWS, width, 1e-5, x, gain, p[0].wide, reciprocals);
        narrow->rms_norm_forward(narrow, ROWS, width, 1e-5, x, gain, p[0].narrow, reciprocals);
        expect_rounded(&p[0], n, "rms_norm_forward", width);
        wide->rms_norm_backward(wide, ROWS, width, p[1].wide, x, gain, reciprocals, false, to_x[0], to_gain[0]);
        narrow->rms_norm_backward(narrow, ROWS, width, p[1].narrow, x, gain, reciprocals, false, to_x[1], to_gain[1]);
        assert_memory_equal(to_x[0], to_x[1], n * sizeof(float));
        assert_memory_equal(to_gain[0], to_gain[1], width * sizeof(float));
        void *all[] = {x,       gain,       bias,       means,      reciprocals, to_x[0],
                       to_x[1], to_gain[0], to_gain[1], to_bias[0], to_bias[1]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            wide->release(wide, all[k]);
        release(p, 2);
    }
}

static void attention(void **state)
{
    static const size_t sizes[][5] = {{2, 5, 3, 1, 4}, {1, 17, 1, 1, 33}, {1, 65, 4, 2, 32}, {1, 130, 2, 2, 6}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct attention shape = {.batch = sizes[i][0],
                                        .sequence = sizes[i][1],
                                        .heads = sizes[i][2],
                                        .kv_heads = sizes[i][3],
                                        .head_width = sizes[i][4],
                                        .causal = true};
        const size_t tokens = shape.batch * shape.sequence, width = shape.heads * shape.head_width;
        const size_t row = attention_row(&shape);
        float *logsums[2] = {make_array(wide, tokens * shape.heads), make_array(wide, tokens * shape.heads)};
        struct pair p[] = {pair_random(tokens * row, 1, 1), pair_random(tokens * width, 1, 2),
                           pair_random(tokens * width, 1, 3), pair_random(tokens * row, 1, 4)};
        struct rotary turn = {.batch = shape.batch,
                              .sequence = shape.sequence,
                              .heads = shape.heads,
                              .head_width = shape.head_width / 2 * 2,
                              .stride = row,
                              .base = 100};
        wide->attention_forward(wide, &shape, p[0].wide, p[1].wide, logsums[0]);
        narrow->attention_forward(narrow, &shape, p[0].narrow, p[1].narrow, logsums[1]);
        expect_rounded(&p[1], tokens * width, "attention_forward", shape.head_width);
        assert_memory_equal(logsums[0], logsums[1], tokens * shape.heads * sizeof(float));
        struct pair out = pair_random(tokens * width, 1, 5); /* the same for both, not rounded by one alone */
        wide->attention_backward(wide, &shape, p[0].wide, out.wide, logsums[0], p[2].wide, p[3].wide);
        narrow->attention_backward(narrow, &shape, p[0].narrow, out.narrow, logsums[1], p[2].narrow, p[3].narrow);
        expect_rounded(&p[3], tokens * row, "attention_backward", shape.head_width);
        wide->rotary(wide, &turn, p[0].wide);
        narrow->rotary(narrow, &turn, p[0].narrow);
        expect_rounded(&p[0], tokens * row, "rotary", shape.head_width);
        wide->release(wide, logsums[0]);
        wide->release(wide, logsums[1]);
        release(p, 4);
        release(&out, 1);
    }
}

static void cross_entropy(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++)
        for (double smoothing = 0; smoothing < 0.2; smoothing += 0.1) {
            const size_t classes = widths[i], stride = classes + 3, n = ROWS * stride;
            int32_t targets[ROWS];
            double of_wide[ROWS], of_narrow[ROWS];
            for (size_t k = 0; k < ROWS; k++)
                targets[k] = (int32_t)random_below(8, k, classes);
            struct pair p = pair_random(n, 3, 1);
            wide->cross_entropy(wide, ROWS, classes, stride, targets, smoothing, 0.25, p.wide, of_wide);
            narrow->cross_entropy(narrow, ROWS, classes, stride, targets, smoothing, 0.25, p.narrow, of_narrow);
            expect_rounded(&p, n, "cross_entropy", classes);
            assert_memory_equal(of_wide, of_narrow, sizeof of_wide);
            release(&p, 1);
        }
}

/* Sums of products near those of the same numbers in f32, beyond the blocks that f16 is multiplied in; threads change no
 * bit. */
static void matrix_products(void **state)
{
    static const size_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {5, 1, 65}, {1030, 3, 5}, {3, 1025, 6}, {7, 9, 4100}};
    for (size_t i = 0; i < 8 * sizeof sizes / sizeof *sizes; i++) {
        const size_t *size = sizes[i / 8], rows = size[0], columns = size[1], inner = size[2];
        const bool transposes = i & 1, accumulate = i & 2, is_wide = i & 4;
        struct pair a = pair_random(rows * inner, 1, 1), b = pair_random(inner * columns, 1, 2),
                    c = pair_random(rows * columns, 1, 3), again = pair_random(rows * columns, 1, 3);
        float *bias = make_random(wide, columns, 1, 4), *sums = make_random(wide, rows * columns, 1, 3);
        struct matmul product = {.rows = rows,
                                 .columns = columns,
                                 .inner = inner,
                                 .transpose_a = transposes,
                                 .transpose_b = !transposes,
                                 .accumulate = accumulate,
                                 .wide = is_wide,
                                 .bias = accumulate ? NULL : bias};
        struct matmul other = product;
        other.a = a.wide, other.b = b.wide, other.c = c.wide;
        if (is_wide)
            memcpy(sums, c.wide, rows * columns * sizeof *sums);
        wide->matmul(wide, &other);
        product.a = a.narrow, product.b = b.narrow, product.c = is_wide ? (void *)sums : c.narrow;
        narrow->matmul(narrow, &product);
        finish_device(narrow);
        double largest = 0, rounding = is_wide ? 1e-6 : narrow->activations == WEFT_F16 ? 0x1p-11 : 0x1p-8;
        for (size_t k = 0; k < rows * columns; k++)
            largest = fmax(largest, fabs((double)c.wide[k]));
        for (size_t k = 0; k < rows * columns; k++) {
            const double found = is_wide ? (double)sums[k] : (double)widened(c.narrow[k]);
            if (!(fabs(found - (double)c.wide[k]) <= rounding * 1.01 * largest))
                fail_msg("product %zu of %zu x %zu x %zu with %s: element %zu is %g, not %g", i, rows, columns, inner,
                         narrow->kernels, k, found, (double)c.wide[k]);
        }
        if (!is_wide) {
            product.c = again.narrow;
            threaded->matmul(threaded, &product);
            finish_device(threaded);
            assert_memory_equal(again.narrow, c.narrow, rows * columns * sizeof *c.narrow);
        }
        wide->release(wide, bias);
        wide->release(wide, sums);
        struct pair all[] = {a, b, c, again};
        release(all, 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(widening_undoes_narrowing),
        cmocka_unit_test(elements),
        cmocka_unit_test(norms),
        cmocka_unit_test(attention),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(matrix_products),
    };
    static const weft_type types[] = {WEFT_BF16, WEFT_F16};
    int failed = 0;
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        size_t wides, narrows;
        const struct kernels *const *of_f32 = kernels_supported(WEFT_F32, &wides);
        const struct kernels *const *tables = kernels_supported(types[type], &narrows);
        for (size_t i = 0; i < narrows; i++) {
            if (cpu_open_with(of_f32[i], 1, &wide, NULL) != WEFT_OK ||
                cpu_open_with(tables[i], 1, &narrow, NULL) != WEFT_OK ||
                cpu_open_with(tables[i], TEST_THREADS, &threaded, NULL) != WEFT_OK)
                return 1;
            printf("kernels of %s for %s\n", weft_type_name(types[type]), tables[i]->name);
            failed += cmocka_run_group_tests(tests, NULL, NULL);
            wide->close(wide);
            narrow->close(narrow);
            threaded->close(threaded);
        }
    }
    return failed;
}
