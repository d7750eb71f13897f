/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels with activations in bf16 do the same arithmetic as those with floats, between loads that lose nothing and
 * stores that round once: from the same numbers they give the float kernels' results, rounded, bit for bit. For each
 * instruction set that this processor has.
 */
#include "training/tensor/devices.h"
#include "training/tensor/kernels/kernels.h"

#include "tensor_support.h"

static struct device *narrow, *wide;
static const size_t widths[] = {1, 2, 7, 15, 16, 17, 33, 64, 100, 257};
#define WIDTHS (sizeof widths / sizeof *widths)
#define ROWS   70 /* more than one part of a sum over rows */

/* The same numbers as activations of both devices: bf16 numbers. */
struct pair {
    float *wide;
    uint16_t *narrow;
};

static struct pair pair_random(size_t count, double deviation, uint64_t seed)
{
    struct pair pair = {make_random(wide, count, deviation, seed),
                        narrow->allocate(narrow, count * sizeof(uint16_t), "a test", NULL)};
    narrow->to_activations(narrow, count, pair.wide, pair.narrow);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)pair.narrow[i] << 16;
        memcpy(&pair.wide[i], &bits, sizeof bits);
    }
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
    static const struct {
        uint32_t from;
        uint16_t to;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
                 {0xbf807fff, 0xbf80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f7fffff, 0x7f80},
                 {0x00000001, 0x0000}, {0x80000000, 0x8000}, {0x00008000, 0x0000}, {0x00018000, 0x0002}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
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
    assert_true((to & 0x7f80) == 0x7f80 && (to & 0x7f));
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
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        assert_int_equal(bits, (uint32_t)halves[i] << 16);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(widening_undoes_narrowing),
        cmocka_unit_test(elements),
        cmocka_unit_test(norms),
        cmocka_unit_test(attention),
        cmocka_unit_test(cross_entropy),
    };
    size_t wides, narrows;
    const struct kernels *const *of_f32 = kernels_supported(WEFT_F32, &wides);
    const struct kernels *const *of_bf16 = kernels_supported(WEFT_BF16, &narrows);
    int failed = 0;
    for (size_t i = 0; i < narrows; i++) {
        if (cpu_open_with(of_f32[i], 1, &wide, NULL) != WEFT_OK ||
            cpu_open_with(of_bf16[i], 1, &narrow, NULL) != WEFT_OK)
            return 1;
        printf("kernels for %s\n", of_bf16[i]->name);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
        wide->close(wide);
        narrow->close(narrow);
    }
    return failed;
}
