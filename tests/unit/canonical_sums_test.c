/* SPDX-License-Identifier: Apache-2.0 */
/* However micro-batches are laid out over ranks, their sum is the one canonical tree, bit for bit. */
#include "base/random.h"
#include "training/parallel/internal/gradient_sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 37, MOST = 64 };

/* Values whose sums round differently in every order. */
static double value(uint32_t number, size_t element)
{
    double exponent = (double)random_below(3, number * 1000 + element, 40) - 20;
    return (random_uniform(2, number * 1000 + element) - 0.5) * exp2(exponent);
}

/* T(first, count) by its definition. */
static double tree(uint32_t first, uint32_t count, size_t element)
{
    uint32_t half = 1;
    if (count == 1)
        return value(first, element);
    while (half * 2 < count)
        half *= 2;
    return tree(first, half, element) + tree(first + half, count - half, element);
}

/* The canonical tree over what ranks hold, as an all-reduce computes it. */
static void tree_over_ranks(double (*arrays)[ELEMENTS], uint32_t count, double *out)
{
    uint32_t half = 1;
    if (count == 1) {
        memcpy(out, arrays[0], ELEMENTS * sizeof *out);
        return;
    }
    while (half * 2 < count)
        half *= 2;
    double left[ELEMENTS], right[ELEMENTS];
    tree_over_ranks(arrays, half, left);
    tree_over_ranks(arrays + half, count - half, right);
    for (size_t e = 0; e < ELEMENTS; e++)
        out[e] = left[e] + right[e];
}

static void assert_is_tree(const double *sum, uint32_t total)
{
    for (size_t e = 0; e < ELEMENTS; e++) {
        double expected = tree(0, total, e);
        assert_memory_equal(&sum[e], &expected, sizeof expected);
    }
}

/* What `ranks` ranks compute together. */
static void sum_over_ranks(struct device *device, uint32_t total, uint32_t ranks, double *result)
{
    double held[MOST][ELEMENTS];
    struct gradient_accumulator sums[MOST];
    struct micro_batches layout[MOST];
    for (uint32_t r = 0; r < ranks; r++) {
        assert_int_equal(micro_batches_lay_out(total, r, ranks, &layout[r], NULL), WEFT_OK);
        assert_int_equal(gradient_accumulator_open(&sums[r], device, ELEMENTS, layout[r].share, NULL), WEFT_OK);
    }
    for (uint32_t i = 0; i < layout[0].share; i++) {
        for (uint32_t r = 0; r < ranks; r++)
            for (size_t e = 0; e < ELEMENTS; e++)
                held[r][e] = value(micro_batches_number(&layout[r], i), e);
        double turn[ELEMENTS];
        bool turns = layout[0].layout == MICRO_BATCHES_IN_TURNS;
        if (turns) {
            tree_over_ranks(held, ranks, turn);
            for (uint32_t r = 0; r < ranks; r++)
                memcpy(held[r], turn, sizeof turn);
        }
        for (uint32_t r = 0; r < ranks; r++) {
            if (i + 1 < layout[r].share) {
                gradient_accumulator_add(&sums[r], held[r]);
                continue;
            }
            /* range by range, from the end, as a backward pass does */
            gradient_accumulator_complete(&sums[r], held[r], 30, ELEMENTS - 30);
            gradient_accumulator_complete(&sums[r], held[r], 7, 23);
            gradient_accumulator_complete(&sums[r], held[r], 0, 7);
        }
    }
    if (layout[0].layout == MICRO_BATCHES_IN_TURNS)
        memcpy(result, held[ranks - 1], ELEMENTS * sizeof *result);
    else
        tree_over_ranks(held, ranks, result);
    for (uint32_t r = 0; r < ranks; r++)
        gradient_accumulator_close(&sums[r]);
}

static void any_division_gives_the_tree_of_one_rank(void **state)
{
    struct device *device;
    double sum[ELEMENTS];
    int divisions = 0;
    assert_int_equal(device_open("reference", 1, &device, NULL), WEFT_OK);
    for (uint32_t total = 1; total <= MOST; total++)
        for (uint32_t ranks = 1; ranks <= total; ranks++) {
            struct micro_batches layout;
            if (micro_batches_lay_out(total, 0, ranks, &layout, NULL) != WEFT_OK)
                continue;
            sum_over_ranks(device, total, ranks, sum);
            assert_is_tree(sum, total);
            divisions++;
        }
    assert_true(divisions > 150);
    device->close(device);
}

static void another_order_would_be_seen(void **state)
{
    double sum[ELEMENTS] = {0};
    int differing = 0;
    for (size_t e = 0; e < ELEMENTS; e++) {
        for (uint32_t n = 0; n < 8; n++)
            sum[e] += value(n, e);
        differing += sum[e] != tree(0, 8, e);
    }
    assert_true(differing > ELEMENTS / 4);
}

static void what_cannot_be_divided_is_refused_with_advice(void **state)
{
    struct error error = {0};
    struct micro_batches layout;
    assert_int_equal(micro_batches_lay_out(8, 0, 3, &layout, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "multiple of 3"));
    error_clear(&error);
    assert_int_equal(micro_batches_lay_out(9, 0, 3, &layout, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "power of two"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_division_gives_the_tree_of_one_rank),
        cmocka_unit_test(another_order_would_be_seen),
        cmocka_unit_test(what_cannot_be_divided_is_refused_with_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
