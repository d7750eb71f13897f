/* SPDX-License-Identifier: Apache-2.0 */
/* How far a run is by its reports: which count, and the time that is left. */
#include "platform/registry/run/progress.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BEGIN  INT64_C(1700000000000)
#define SECOND INT64_C(1000)
#define MINUTE INT64_C(60000)

static bool take(struct run_progress_watch *watch, double done, double total, double left, int64_t rank, int64_t time)
{
    return run_progress_take(watch, &(struct metric_progress){true, done, total, left}, rank, time);
}

/* Its text at `now`. */
static void assert_says(const struct run_progress_watch *watch, int64_t now, const char *expected)
{
    char text[RUN_PROGRESS_BYTES];
    assert_string_equal(run_progress_say(&watch->last, now, text), expected);
}

static void the_programs_own_estimate_counts(void **state)
{
    struct run_progress_watch watch = {0};
    assert_says(&watch, BEGIN, "");
    assert_int_equal(run_progress_end(&watch.last, BEGIN), 0);
    assert_true(take(&watch, 300, 800, 225, 0, BEGIN));
    assert_int_equal(run_progress_end(&watch.last, BEGIN), BEGIN + 225 * SECOND);
    assert_says(&watch, BEGIN, "37 % done, with 3m45s left");
    assert_says(&watch, BEGIN + 25 * SECOND, "37 % done, with 3m20s left");
    /* A run that stopped reporting is shown with the age of its report, which predicts no end for ever. */
    assert_says(&watch, BEGIN + 3 * MINUTE, "37 % done as of 3.0 min ago, with 45s left");
    assert_says(&watch, BEGIN + 5 * MINUTE, "37 % done as of 5.0 min ago");
    assert_int_equal(run_progress_end(&watch.last, BEGIN + 225 * SECOND), 0);
    assert_true(take(&watch, 799.9, 800, 0, 0, BEGIN + 6 * MINUTE));
    assert_says(&watch, BEGIN + 6 * MINUTE, "99 % done");
    assert_true(take(&watch, 800, 800, 1e10, 0, BEGIN + 6 * MINUTE));
    assert_true(run_progress_end(&watch.last, BEGIN) > BEGIN); /* no overflow */
}

static void otherwise_the_median_rate_does(void **state)
{
    struct run_progress_watch watch = {0};
    int64_t now = BEGIN;
    assert_true(take(&watch, 0, 10000, -1, 0, now));
    assert_true(watch.last.left < 0);
    assert_says(&watch, now, "0 % done");
    for (int i = 1; i <= 10; i++) /* 1 unit a second */
        assert_true(take(&watch, i * 10, 10000, -1, 0, now += 10 * SECOND));
    assert_float_equal(watch.last.left, 9900, 1e-6);
    assert_true(take(&watch, 110, 10000, -1, 0, now += 10 * MINUTE)); /* an evaluation in between */
    assert_float_equal(watch.last.left, 9890, 1e-6);
    assert_true(take(&watch, 1110, 10000, -1, 0, now += 10 * SECOND)); /* and a fast stretch */
    assert_float_equal(watch.last.left, 8890, 1e-6);
    /* What it was long ago does not count: it is ten times as fast from now on. */
    for (int i = 1; i <= 200; i++)
        assert_true(take(&watch, 1110 + i * 20, 10000, -1, 0, now += 2 * SECOND));
    assert_float_equal(watch.last.left, 489, 1e-6);
    assert_true(take(&watch, 10000, 10000, -1, 0, now += SECOND));
    assert_true(watch.last.left == 0);
}

static void reports_that_come_fast_are_thinned(void **state)
{
    struct run_progress_watch watch = {0};
    for (int i = 0; i <= 100000; i++) /* each millisecond */
        assert_true(take(&watch, i, 200000, -1, 0, BEGIN + i));
    assert_in_range(watch.count, 2, RUN_PROGRESS_SAMPLES);
    assert_true(BEGIN + 100000 - watch.samples[0].time >= 15 * SECOND);
    assert_float_equal(watch.last.left, 100, 1e-3);
}

static void one_that_stands_still_has_no_end(void **state)
{
    struct run_progress_watch watch = {0};
    for (int i = 0; i <= 5; i++)
        take(&watch, i, 100, -1, 0, BEGIN + i * SECOND);
    assert_float_equal(watch.last.left, 95, 1e-6);
    for (int i = 6; i <= 40; i++)
        take(&watch, 5, 100, -1, 0, BEGIN + i * SECOND);
    assert_true(watch.last.left < 0);
    assert_int_equal(run_progress_end(&watch.last, BEGIN + 40 * SECOND), 0);
}

static void what_goes_back_begins_anew(void **state)
{
    struct run_progress_watch watch = {0};
    for (int i = 0; i <= 10; i++)
        take(&watch, i * 100, 2000, -1, 0, BEGIN + i * SECOND);
    assert_float_equal(watch.last.left, 10, 1e-6);
    assert_true(take(&watch, 500, 2000, -1, 0, BEGIN + 11 * SECOND)); /* from a checkpoint */
    assert_true(watch.last.left < 0);
    assert_true(take(&watch, 510, 2000, -1, 0, BEGIN + 12 * SECOND));
    assert_float_equal(watch.last.left, 149, 1e-6);
    assert_true(take(&watch, 600, 3000, -1, 0, BEGIN + 13 * SECOND)); /* of something else */
    assert_true(watch.last.left < 0);
}

static void the_lowest_rank_speaks(void **state)
{
    struct run_progress_watch watch = {0};
    assert_true(take(&watch, 5, 10, -1, 3, BEGIN));
    assert_true(take(&watch, 1, 10, -1, 2, BEGIN + 1));
    assert_false(take(&watch, 9, 10, -1, 3, BEGIN + 2));
    assert_int_equal(watch.last.done, 1);
    assert_true(take(&watch, 2, 10, -1, 2, BEGIN + MINUTE));
    assert_false(take(&watch, 9, 10, -1, 3, BEGIN + 2 * MINUTE - 1));
    assert_true(take(&watch, 9, 10, -1, 3, BEGIN + 2 * MINUTE)); /* the other one is silent */
    assert_true(take(&watch, 3, 10, -1, 2, BEGIN + 2 * MINUTE + 1));
}

static void what_is_no_report_changes_nothing(void **state)
{
    struct run_progress_watch watch = {0};
    assert_true(take(&watch, 5, 10, 60, 0, BEGIN));
    assert_false(run_progress_take(&watch, &(struct metric_progress){0}, 0, BEGIN + 1));
    assert_false(take(&watch, 6, 10, 60, 0, BEGIN - 1)); /* late */
    assert_false(take(&watch, 6, 10, 60, 0, 0));
    assert_int_equal(watch.last.done, 5);
    /* The clock is set back: what was reported was so long ago as before, and the next report counts. */
    run_progress_shift(&watch, -60 * MINUTE);
    assert_int_equal(run_progress_end(&watch.last, BEGIN - 60 * MINUTE), BEGIN - 60 * MINUTE + MINUTE);
    assert_true(take(&watch, 6, 10, 60, 0, BEGIN - 59 * MINUTE));
    run_progress_shift(&(struct run_progress_watch){0}, 1);
}

static void it_goes_on_from_what_was_kept(void **state)
{
    struct run_progress_watch before = {0}, watch;
    take(&before, 100, 1000, -1, 0, BEGIN);
    take(&before, 200, 1000, -1, 0, BEGIN + 100 * SECOND);
    run_progress_begin(&watch, &before.last);
    assert_says(&watch, BEGIN + 101 * SECOND, "20 % done, with 13m19s left");
    assert_true(take(&watch, 300, 1000, -1, 0, BEGIN + 150 * SECOND)); /* twice as fast */
    assert_float_equal(watch.last.left, 350, 1e-6);
    run_progress_begin(&watch, &(struct run_progress){0});
    assert_int_equal(watch.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_programs_own_estimate_counts),   cmocka_unit_test(otherwise_the_median_rate_does),
        cmocka_unit_test(reports_that_come_fast_are_thinned), cmocka_unit_test(one_that_stands_still_has_no_end),
        cmocka_unit_test(what_goes_back_begins_anew),         cmocka_unit_test(the_lowest_rank_speaks),
        cmocka_unit_test(what_is_no_report_changes_nothing),  cmocka_unit_test(it_goes_on_from_what_was_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
