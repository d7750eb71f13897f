/* SPDX-License-Identifier: Apache-2.0 */
/* The rate and the fixed cost that `weft profile machine` finds in times of products: known ones, with and without noise. */
#include "cli/measure/machine/machine_measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/random.h"

/* Times of products of 64 to 640 on a device of `rate` with `half`, each longer by up to `noise`. */
static struct machine_products products_of(double rate, double half, double noise)
{
    static const double sizes[] = {64, 96, 128, 192, 256, 384, 512, 640};
    struct machine_products products = {.count = sizeof sizes / sizeof *sizes, .peak = rate};
    for (size_t i = 0; i < products.count; i++) {
        double operations = 2 * sizes[i] * sizes[i] * sizes[i];
        products.operations[i] = operations;
        products.seconds[i] = (operations + half) / rate * (1 + noise * (double)random_below(1, i, 1000) / 1000);
    }
    return products;
}

static void exact_times_give_rate_and_half(void **state)
{
    static const struct {
        double rate, half;
    } cases[] = {{100e9, 1e6}, {1e12, 50e6}, {300e12, 2e9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct machine_products products = products_of(cases[i].rate, cases[i].half, 0);
        const struct machine_fit fit = machine_fit_products(&products);
        assert_true(fabs(fit.rate / cases[i].rate - 1) < 1e-6);
        assert_true(fabs(fit.half / cases[i].half - 1) < 1e-6);
        assert_true(fit.error < 1e-6);
    }
}

static void noise_moves_the_fit_by_as_much(void **state)
{
    const struct machine_products products = products_of(100e9, 1e6, 0.05);
    const struct machine_fit fit = machine_fit_products(&products);
    assert_true(fabs(fit.rate / 100e9 - 1) < 0.06);
    assert_true(fit.error < 0.05);
}

static void no_fixed_cost_is_no_negative_one(void **state)
{
    struct machine_products products = products_of(100e9, 0, 0);
    products.seconds[0] *= 0.5; /* the smallest one is faster than the rate */
    const struct machine_fit fit = machine_fit_products(&products);
    assert_true(fit.half == 0);
    assert_true(fit.rate > 0 && isfinite(fit.rate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_times_give_rate_and_half),
        cmocka_unit_test(noise_moves_the_fit_by_as_much),
        cmocka_unit_test(no_fixed_cost_is_no_negative_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
