/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation assumes of jobs: no limit is shorter than its job, and a larger share includes a smaller one. */
#include "platform/scheduler/simulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define DAY 86400.0

static double limit(enum assumed_limits limits, double duration)
{
    const struct assumptions assumptions = {.limits = limits};
    return assume_limit(&assumptions, &(struct trace_job){.duration = duration});
}

static void limits_are_rounded_up(void **state)
{
    assert_true(limit(ASSUME_NO_LIMITS, 100) == 0);
    assert_true(limit(ASSUME_TRUE_LIMITS, 100) == 100);
    assert_true(limit(ASSUME_BUCKETED_LIMITS, 100) == 900);
    assert_true(limit(ASSUME_BUCKETED_LIMITS, 900) == 900);
    assert_true(limit(ASSUME_BUCKETED_LIMITS, 901) == 1800);
    assert_true(limit(ASSUME_BUCKETED_LIMITS, 5 * DAY) == 7 * DAY);
    assert_true(limit(ASSUME_BUCKETED_LIMITS, 8 * DAY) == 14 * DAY);
    assert_true(limit(ASSUME_DEFAULT_LIMITS, 100) == DAY);
    assert_true(limit(ASSUME_DEFAULT_LIMITS, DAY + 1) == 2 * DAY);
    for (int kind = ASSUME_TRUE_LIMITS; kind <= ASSUME_DEFAULT_LIMITS; kind++)
        for (double duration = 0; duration < 40 * DAY; duration = 1.3 * duration + 1)
            assert_true(limit((enum assumed_limits)kind, duration) >= duration &&
                        limit((enum assumed_limits)kind, duration) > 0);
}

static void shares_are_nested(void **state)
{
    int count[3] = {0};
    for (uint64_t name = 1; name <= 10000; name++) {
        bool before = false;
        for (int i = 0; i < 3; i++) {
            const struct assumptions assumptions = {.preemptible = 0.5 * i};
            const bool is = assume_preemptible(&assumptions, &(struct trace_job){.name = name});
            assert_true(is || !before);
            before = is;
            count[i] += is;
        }
    }
    assert_int_equal(count[0], 0);
    assert_in_range(count[1], 4800, 5200);
    assert_int_equal(count[2], 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits_are_rounded_up), cmocka_unit_test(shares_are_nested)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
