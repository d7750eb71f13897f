/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a pipeline are those of the plain recurrence, tried out cell by cell. */
#include "base/random.h"
#include "training/parallel/execute/stages.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define UNITS_MOST 100
#define CASES      20000

/* The smallest cost of the largest stage; of equal ones the last stage is shortest. */
static void balance_plainly(const double *costs, uint32_t units, uint32_t stages, uint32_t *first_unit)
{
    static double best[UNITS_MOST + 1][UNITS_MOST + 1], before[UNITS_MOST + 1];
    static uint32_t begin[UNITS_MOST + 1][UNITS_MOST + 1];
    for (uint32_t u = 0; u < units; u++)
        before[u + 1] = before[u] + costs[u];
    for (uint32_t u = 0; u <= units; u++)
        best[0][u] = u ? INFINITY : 0;
    for (uint32_t s = 1; s <= stages; s++)
        for (uint32_t u = 0; u <= units; u++) {
            best[s][u] = INFINITY;
            for (uint32_t c = u; c-- > 0;) {
                const double largest = fmax(before[u] - before[c], best[s - 1][c]);
                if (largest >= best[s][u])
                    continue;
                best[s][u] = largest;
                begin[s][u] = c;
            }
        }
    first_unit[stages] = units;
    for (uint32_t s = stages; s > 0; s--)
        first_unit[s - 1] = begin[s][first_unit[s]];
}

static double cost_of(uint32_t number, uint64_t seed, uint32_t unit)
{
    const double real = (double)random_below(seed, unit, 1000) / 977;
    switch (number % 5) {
    case 0:
        return 1;
    case 1:
        return real;
    case 2: /* many are equal or free */
        return (double)random_below(seed, unit, 3);
    case 3: /* attention and feed-forward layers */
        return unit % 2 ? 1.7e-3 : 2.9e-3;
    default: /* between an embedding and a head */
        return unit == 0 ? 0 : unit == 20 ? 5e-2 : 3.1e-3 + 1e-4 * real;
    }
}

static void stages_are_those_of_the_recurrence(void **state)
{
    for (uint32_t number = 0; number < CASES; number++) {
        const uint32_t units = 1 + (uint32_t)random_below(1, number, number % 100 ? 24 : UNITS_MOST),
                       stages = 1 + (uint32_t)random_below(2, number, units);
        double costs[UNITS_MOST];
        uint32_t plain[UNITS_MOST + 1], first_unit[UNITS_MOST + 1];
        for (uint32_t u = 0; u < units; u++)
            costs[u] = cost_of(number, number, u);
        balance_plainly(costs, units, stages, plain);
        assert_int_equal(stages_balance(costs, units, stages, first_unit, NULL), WEFT_OK);
        assert_memory_equal(first_unit, plain, (stages + 1) * sizeof *plain);
    }
}

static void more_stages_than_layers_are_refused(void **state)
{
    struct error error = {0};
    uint32_t first_unit[4];
    assert_int_equal(stages_balance((double[]){1, 1}, 2, 3, first_unit, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "3 pipeline stages"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_those_of_the_recurrence),
        cmocka_unit_test(more_stages_than_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
