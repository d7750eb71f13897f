/* SPDX-License-Identifier: Apache-2.0 */
/* Warm-up, the shapes of the fall, floor, and how the peak follows the number of ranks. */
#include "training/optimizer/learning_rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct learning_rate schedule = {.peak = 1e-3, .floor = 1e-4, .warmup = 10, .steps = 110};

static void rises_linearly_then_falls_as_a_cosine(void **state)
{
    assert_true(fabs(learning_rate_at(&schedule, 0) - 1e-4) < 1e-12);
    assert_true(fabs(learning_rate_at(&schedule, 9) - 1e-3) < 1e-12);
    assert_true(fabs(learning_rate_at(&schedule, 60) - 5.5e-4) < 1e-12);
    for (uint64_t step = 10; step < 109; step++)
        assert_true(learning_rate_at(&schedule, step + 1) < learning_rate_at(&schedule, step));
}

static void other_shapes_go_from_the_peak_to_the_floor(void **state)
{
    struct learning_rate other = schedule;
    other.floor = 1e-5;
    other.shape = LEARNING_RATE_LINEAR;
    assert_true(fabs(learning_rate_at(&other, 60) - (1e-3 + 1e-5) / 2) < 1e-12);
    other.shape = LEARNING_RATE_STEP;
    assert_true(learning_rate_at(&other, 10) == 1e-3 && learning_rate_at(&other, 43) == 1e-3);
    assert_true(fabs(learning_rate_at(&other, 44) - 1e-4) < 1e-12 && fabs(learning_rate_at(&other, 76) - 1e-4) < 1e-12);
    assert_true(fabs(learning_rate_at(&other, 77) - 1e-5) < 1e-12);
    other.shape = LEARNING_RATE_WSD;
    assert_true(learning_rate_at(&other, 89) == 1e-3);
    assert_true(fabs(learning_rate_at(&other, 100) - (1e-3 + 1e-5) / 2) < 1e-12);
    for (enum learning_rate_shape shape = LEARNING_RATE_COSINE; shape <= LEARNING_RATE_WSD; shape++) {
        other.shape = shape;
        assert_true(fabs(learning_rate_at(&other, 10) - 1e-3) < 1e-12);
        assert_true(learning_rate_at(&other, 110) == 1e-5);
        for (uint64_t step = 10; step < 110; step++)
            assert_true(learning_rate_at(&other, step + 1) <= learning_rate_at(&other, step));
    }
}

static void stays_at_the_floor(void **state)
{
    assert_true(learning_rate_at(&schedule, 110) == 1e-4);
    assert_true(learning_rate_at(&schedule, 100000) == 1e-4);
}

static void a_run_that_is_all_warm_up_has_no_cosine(void **state)
{
    const struct learning_rate all = {.peak = 1, .floor = 0.1, .warmup = 5, .steps = 5};
    assert_true(learning_rate_at(&all, 4) == 1);
    assert_true(learning_rate_at(&all, 5) == 0.1);
}

static void scaling_is_a_choice(void **state)
{
    assert_true(learning_rate_scaled(2, WEFT_RATE_AS_GIVEN, 4) == 2);
    assert_true(learning_rate_scaled(2, WEFT_RATE_LINEAR, 4) == 8);
    assert_true(learning_rate_scaled(2, WEFT_RATE_ROOT, 4) == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rises_linearly_then_falls_as_a_cosine),
        cmocka_unit_test(other_shapes_go_from_the_peak_to_the_floor),
        cmocka_unit_test(stays_at_the_floor),
        cmocka_unit_test(a_run_that_is_all_warm_up_has_no_cosine),
        cmocka_unit_test(scaling_is_a_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
