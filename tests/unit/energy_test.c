/* SPDX-License-Identifier: Apache-2.0 */
/* Energy: the integral of power, and everybody's part of it. */
#include "observe/telemetry/energy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/random.h"

#define SECOND UINT64_C(1000000000)

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * fmax(fabs(expected), 1)))
        fail_msg("%.15g is not %.15g", found, expected);
}

static void steady_power_is_power_times_time(void **state)
{
    struct energy energy = {0};
    for (uint64_t i = 0; i <= 10; i++)
        energy_add_power(&energy, 300, (100 + 5 * i) * SECOND, 60);
    assert_near(energy.joules, 300 * 50);
    assert_near(energy.seconds, 50);
    assert_true(energy.missed == 0);
}

/* The trapezoidal rule is exact for power that rises steadily, however unevenly it is read. */
static void rising_power_is_integrated_exactly(void **state)
{
    for (uint64_t history = 0; history < 50; history++) {
        struct energy energy = {0};
        uint64_t at = 0;
        for (uint64_t i = 0; i < 100; i++) {
            energy_add_power(&energy, 20 + 3e-9 * (double)at, at + SECOND, 60);
            at += 1 + random_below(history, i, 10 * SECOND);
        }
        const double end = (double)(energy.at - SECOND) * 1e-9;
        assert_near(energy.joules / (20 * end + 1.5 * end * end), 1);
    }
}

static void what_was_not_read_is_missed_and_not_guessed(void **state)
{
    struct energy energy = {0};
    energy_add_power(&energy, 100, 10 * SECOND, 30);
    energy_add_power(&energy, 100, 20 * SECOND, 30);
    energy_add_power(&energy, NAN, 25 * SECOND, 30);  /* no reading */
    energy_add_power(&energy, -5, 26 * SECOND, 30);   /* nor this */
    energy_add_power(&energy, 200, 30 * SECOND, 30);  /* 10 s after the last one */
    energy_add_power(&energy, 200, 130 * SECOND, 30); /* too long */
    energy_add_power(&energy, 200, 130 * SECOND, 30); /* no time */
    energy_add_power(&energy, 999, 120 * SECOND, 30); /* back */
    energy_add_power(&energy, 400, 140 * SECOND, 30);
    assert_near(energy.joules, 1000 + 1500 + 3000);
    assert_near(energy.seconds, 30);
    assert_near(energy.missed, 100);
}

static void counted_energy_adds_up(void **state)
{
    struct energy energy = {0};
    energy_add(&energy, 500, 5);
    energy_add(&energy, NAN, 600);
    energy_add(&energy, INFINITY, 1);
    energy_add(&energy, -1, 1);
    energy_add(&energy, 7, 0); /* the first sample, which has nothing before it */
    energy_add(&energy, 250, 5);
    assert_near(energy.joules, 750);
    assert_near(energy.seconds, 10);
    assert_near(energy.missed, 602);
}

static void processors_energy_goes_by_processor_time(void **state)
{
    double parts[3];
    const double rest = energy_divide(1000, 40, (const double[]){10, 0, 5}, parts, 3);
    assert_near(parts[0], 250);
    assert_near(parts[1], 0);
    assert_near(parts[2], 125);
    assert_near(rest, 625);
}

static void a_machine_where_nobody_computes_has_only_a_rest(void **state)
{
    double parts[2];
    assert_near(energy_divide(90, 0, (const double[]){0, 0}, parts, 2), 90);
    assert_true(parts[0] == 0 && parts[1] == 0);
    assert_near(energy_divide(90, NAN, (const double[]){NAN, 0}, parts, 2), 90);
    assert_true(parts[0] == 0);
}

static void unknown_energy_has_unknown_parts(void **state)
{
    double part;
    assert_true(isnan(energy_divide(NAN, 10, (const double[]){5}, &part, 1)) && isnan(part));
    assert_true(isnan(energy_divide(-1, 10, (const double[]){5}, &part, 1)) && isnan(part));
    assert_true(isnan(energy_divide(NAN, 10, NULL, NULL, 0)));
}

/* Whatever is measured: no part is below zero, make the whole with the rest, and are in proportion. */
static void parts_make_the_whole(void **state)
{
    for (uint64_t draw = 0; draw < 20000; draw++) {
        double used[8], parts[8], sum = 0;
        const size_t count = random_below(1, draw, 9);
        const double joules = 1e4 * random_uniform(2, draw), all = 40 * random_uniform(3, draw);
        for (size_t i = 0; i < count; i++)
            used[i] = random_below(4, 8 * draw + i, 5) ? 10 * random_uniform(5, 8 * draw + i) : -1;
        const double rest = energy_divide(joules, all, used, parts, count);
        for (size_t i = 0; i < count; i++) {
            assert_true(parts[i] >= 0);
            sum += parts[i];
            for (size_t other = 0; other < i; other++)
                if (used[i] > 0 && used[other] > 0)
                    assert_near(parts[i] * used[other], parts[other] * used[i]);
        }
        assert_true(rest >= 0);
        assert_near(sum + rest, joules);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_power_is_power_times_time),
        cmocka_unit_test(rising_power_is_integrated_exactly),
        cmocka_unit_test(what_was_not_read_is_missed_and_not_guessed),
        cmocka_unit_test(counted_energy_adds_up),
        cmocka_unit_test(processors_energy_goes_by_processor_time),
        cmocka_unit_test(a_machine_where_nobody_computes_has_only_a_rest),
        cmocka_unit_test(unknown_energy_has_unknown_parts),
        cmocka_unit_test(parts_make_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
