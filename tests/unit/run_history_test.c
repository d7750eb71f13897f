/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of how long runs take, against distributions of which the answer is known. */
#include "base/random.h"
#include "platform/scheduler/internal/history.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NEAR(a, b, share) assert_true(fabs((double)(a) - (double)(b)) <= (share)*fabs((double)(b)))

static struct history *with(uint32_t project, uint32_t slots, double (*draw)(uint64_t), unsigned runs)
{
    struct history *history = history_new(NULL);
    assert_non_null(history);
    for (unsigned i = 0; i < runs; i++)
        assert_int_equal(history_add(history, (struct history_kind){project, 0, slots}, draw(i), NULL), WEFT_OK);
    history_renew_begin(history);
    history_renew_end(history);
    return history;
}

static double exponential(uint64_t i)
{
    return -7200 * log(1 - random_uniform(1, i));
}

/* Without memory: what is left is the mean, whatever the age, and so is the rank. */
static void runs_without_memory(void **state)
{
    struct history *history = with(3, 8, exponential, 20000);
    for (double age = 60; age < 20000; age *= 3) {
        NEAR(history_remaining(history, (struct history_kind){3, 0, 8}, age), 7200, 0.1);
        NEAR(history_cost(history, (struct history_kind){3, 0, 8}, age), 7200,
             0.25); /* the least of many quotients: noise lowers it */
    }
    history_free(history);
}

static double short_or_long(uint64_t i)
{
    return (i % 10 ? 600 : 360000) * (0.5 + random_uniform(2, i));
}

/* Most end within minutes, some take days: a young run is worth serving, one of an hour is not, and has days to go. */
static void runs_that_are_short_or_very_long(void **state)
{
    struct history *history = with(0, 1, short_or_long, 20000);
    assert_true(history_cost(history, (struct history_kind){0, 0, 1}, 0) < 1000);
    assert_true(history_cost(history, (struct history_kind){0, 0, 1}, 3600) > 100000);
    NEAR(history_remaining(history, (struct history_kind){0, 0, 1}, 3600), 356400, 0.15);
    NEAR(history_remaining(history, (struct history_kind){0, 0, 1}, 0), 0.9 * 600 + 0.1 * 360000, 0.15);
    history_free(history);
}

static double five_minutes(uint64_t i)
{
    return 300 + (double)(i % 7);
}

/* A project that nobody knows leans on runs of its size, those on all runs; one with a history of its own does not. */
static void strangers_lean_on_others(void **state)
{
    struct history *history = with(7, 4, five_minutes, 500);
    assert_true(history_remaining(history, (struct history_kind){1, 0, 4}, 0) < 600);
    assert_true(history_remaining(history, (struct history_kind){1, 0, 64}, 0) < 600);
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(history_add(history, (struct history_kind){1, 0, 4}, 100000, NULL), WEFT_OK);
    history_renew_begin(history);
    history_renew_end(history);
    NEAR(history_remaining(history, (struct history_kind){1, 0, 4}, 0), 100000, 0.3);
    assert_true(history_remaining(history, (struct history_kind){7, 0, 4}, 0) < 2000);
    history_free(history);
}

/* Two people of a project whose runs take minutes and days; a third one is taken for either. */
static void members_differ(void **state)
{
    struct history *history = history_new(NULL);
    assert_non_null(history);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(history_add(history, (struct history_kind){2, 1, 4}, five_minutes(i), NULL), WEFT_OK);
        assert_int_equal(history_add(history, (struct history_kind){2, 2, 4}, 100000, NULL), WEFT_OK);
    }
    history_renew_begin(history);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(history_renew_running(history, (struct history_kind){2, 5, 4}, 60, NULL), WEFT_OK);
    history_renew_end(history);
    const double brief = history_remaining(history, (struct history_kind){2, 1, 4}, 0),
                 lengthy = history_remaining(history, (struct history_kind){2, 2, 4}, 0),
                 anybody = history_remaining(history, (struct history_kind){2, 0, 4}, 0);
    assert_true(brief < 2000);
    NEAR(lengthy, 100000, 0.3);
    assert_true(brief < anybody && anybody < lengthy);
    NEAR(history_remaining(history, (struct history_kind){2, 3, 4}, 0), anybody, 1e-9); /* never seen */
    NEAR(history_remaining(history, (struct history_kind){2, 5, 4}, 0), anybody, 0.3);  /* has just begun */
    /* For another size, the project's history of all sizes counts. */
    NEAR(history_remaining(history, (struct history_kind){2, 1, 64}, 0),
         history_remaining(history, (struct history_kind){9, 0, 64}, 0), 1e-9);
    history_free(history);
}

/* Runs that have not ended say that runs may be long, though none has been seen to its end. */
static void what_still_runs_counts(void **state)
{
    struct history *history = with(0, 8, five_minutes, 100);
    double before = history_remaining(history, (struct history_kind){0, 0, 8}, 3600);
    history_renew_begin(history);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(history_renew_running(history, (struct history_kind){0, 0, 8}, 400000, NULL), WEFT_OK);
    history_renew_end(history);
    assert_true(history_remaining(history, (struct history_kind){0, 0, 8}, 3600) > 10 * before);
    double once = history_remaining(history, (struct history_kind){0, 0, 8}, 3600);
    history_renew_begin(history); /* they are counted again each time, not added up */
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(history_renew_running(history, (struct history_kind){0, 0, 8}, 400000, NULL), WEFT_OK);
    history_renew_end(history);
    NEAR(history_remaining(history, (struct history_kind){0, 0, 8}, 3600), once, 1e-9);
    history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_without_memory),      cmocka_unit_test(runs_that_are_short_or_very_long),
        cmocka_unit_test(strangers_lean_on_others), cmocka_unit_test(members_differ),
        cmocka_unit_test(what_still_runs_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
