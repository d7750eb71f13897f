/* SPDX-License-Identifier: Apache-2.0 */
/* Counters that are read now and then: what has been added, unless that is not known. */
#include "observe/telemetry/internal/counter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/random.h"

#define SECOND UINT64_C(1000000000)

static void the_first_reading_tells_nothing(void **state)
{
    struct counter counter = {0};
    struct counter_step step;
    assert_false(counter_read(&counter, 700, 0, SECOND, &step));
    assert_true(counter_read(&counter, 1000, 0, 3 * SECOND, &step));
    assert_int_equal(step.increase, 300);
    assert_true(step.seconds == 2);
}

static void no_time_makes_no_rate(void **state)
{
    struct counter counter = {0};
    struct counter_step step;
    counter_read(&counter, 1, 0, 5 * SECOND, &step);
    assert_false(counter_read(&counter, 9, 0, 5 * SECOND, &step));
    assert_false(counter_read(&counter, 10, 0, 4 * SECOND, &step)); /* a clock that went back */
    assert_true(counter_read(&counter, 11, 0, 5 * SECOND, &step));
    assert_int_equal(step.increase, 1);
}

static void a_counter_that_began_again_leaves_one_step_out(void **state)
{
    struct counter counter = {0};
    struct counter_step step;
    counter_read(&counter, 1000000, 0, SECOND, &step);
    assert_false(counter_read(&counter, 400, 0, 2 * SECOND, &step));
    assert_true(counter_read(&counter, 500, 0, 3 * SECOND, &step));
    assert_int_equal(step.increase, 100);
}

static void a_counter_with_a_range_wraps(void **state)
{
    struct counter counter = {0};
    struct counter_step step;
    counter_read(&counter, 999, 1000, SECOND, &step);
    assert_true(counter_read(&counter, 0, 1000, 2 * SECOND, &step));
    assert_int_equal(step.increase, 1);
    assert_false(counter_read(&counter, 1000, 1000, 3 * SECOND, &step)); /* none of its values */
    assert_false(counter_read(&counter, 10, 1000, 4 * SECOND, &step));   /* nothing to compare with */
    assert_true(counter_read(&counter, 30, 1000, 5 * SECOND, &step));
    assert_int_equal(step.increase, 20);
}

/* Whatever the range and the steps, below one turn: the steps that were made are the steps that are seen. */
static void steps_below_a_turn_are_all_seen(void **state)
{
    for (uint64_t draw = 0; draw < 20000; draw++) {
        const uint64_t range = 2 + random_bits(1, draw) % (draw % 2 ? 1000 : UINT64_MAX - 2);
        const uint64_t start = random_bits(2, draw) % range, made = random_bits(3, draw) % range;
        const uint64_t end = made < range - start ? start + made : made - (range - start);
        struct counter counter = {0};
        struct counter_step step;
        counter_read(&counter, start, range, SECOND, &step);
        assert_true(counter_read(&counter, end, range, 2 * SECOND, &step));
        assert_int_equal(step.increase, made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_reading_tells_nothing),
        cmocka_unit_test(no_time_makes_no_rate),
        cmocka_unit_test(a_counter_that_began_again_leaves_one_step_out),
        cmocka_unit_test(a_counter_with_a_range_wraps),
        cmocka_unit_test(steps_below_a_turn_are_all_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
