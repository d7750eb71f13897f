/* SPDX-License-Identifier: Apache-2.0 */
/* The number beside a curve is of all ranks, at a step that all of them have reached. */
#include "platform/metrics/store/latest.h"

#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SECOND 1000000LL

static const char *directory;
static struct metric_store *store;
static int64_t moment; /* of the next report */

static int begin(void **state)
{
    static unsigned stores;
    char name[32];
    struct error error = {0};
    snprintf(name, sizeof name, "latest-%u.db", ++stores);
    moment = 1700000000 * SECOND;
    if (metric_store_open(temporary_path(directory, name), &(struct metric_options){0}, &store, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return 0;
}

static int end(void **state)
{
    return metric_store_close(store, NULL) != WEFT_OK;
}

static void report(int64_t rank, int64_t attempt, int64_t step, double value)
{
    const struct metric_point point = {step, moment++, value};
    struct error error = {0};
    if (metric_store_append(store, &(struct metric_key){7, attempt, rank, "loss"}, &point, 1, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static struct metric_latest latest(void)
{
    struct metric_latest latest;
    struct error error = {0};
    bool found;
    if (metric_latest(store, 7, "loss", &latest, &found, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(found);
    return latest;
}

static void it_is_the_mean_of_all_ranks(void **state)
{
    for (int64_t step = 0; step < 600; step++)
        for (int64_t rank = 0; rank < 4; rank++)
            report(rank, 1, step, (double)(step + rank));
    struct metric_latest found = latest();
    assert_int_equal(found.step, 599);
    assert_int_equal(found.time, moment - 1);
    assert_int_equal(found.ranks, 4);
    assert_true(found.mean == 600.5 && found.lowest == 599 && found.highest == 602);
    assert_int_equal(metric_store_flush(store, 0, NULL), WEFT_OK);
    found = latest();
    assert_true(found.mean == 600.5 && found.step == 599);
}

static void ranks_that_are_ahead_are_taken_where_all_are(void **state)
{
    for (int64_t step = 0; step < 300; step++)
        report(0, 1, step, 1);
    for (int64_t step = 0; step < 250; step++) /* rank 0 has a block and 44 more: step 249 is in the block */
        report(1, 1, step, 3);
    report(2, 1, 240, 5);
    report(2, 1, 270, 7);
    const struct metric_latest found = latest();
    assert_int_equal(found.step, 249);
    assert_int_equal(found.ranks, 3);
    assert_true(found.mean == 3 && found.lowest == 1 && found.highest == 5);
}

static void who_is_silent_is_not_waited_for(void **state)
{
    report(0, 1, 10, 100);
    report(1, 1, 10, 100);
    moment += METRIC_LATEST_SECONDS * SECOND + 1;
    report(1, 1, 500, 2);
    report(2, 1, 500, 4);
    const struct metric_latest found = latest();
    assert_int_equal(found.step, 500);
    assert_true(found.mean == 3 && found.ranks == 2);
}

static void the_newest_attempt_counts(void **state)
{
    for (int64_t rank = 0; rank < 4; rank++)
        report(rank, 1, 90, 9);
    report(0, 2, 50, 1);
    report(1, 2, 50, 2);
    const struct metric_latest found = latest();
    assert_int_equal(found.step, 50);
    assert_true(found.mean == 1.5 && found.ranks == 2);
}

static void what_is_not_finite_is_told(void **state)
{
    struct metric_latest found;
    report(0, 1, 1, INFINITY);
    report(1, 1, 1, 2);
    found = latest();
    assert_true(found.mean == INFINITY && found.lowest == 2 && found.highest == INFINITY);
    report(0, 1, 2, 1);
    report(1, 1, 2, NAN);
    found = latest();
    assert_true(isnan(found.mean) && found.lowest == 1 && found.highest == 1);
    report(0, 1, 3, -INFINITY);
    report(1, 1, 3, -INFINITY);
    assert_true(latest().mean == -INFINITY);
}

static void nothing_is_found_where_there_is_nothing(void **state)
{
    struct metric_latest found;
    bool any = true;
    assert_int_equal(metric_store_append(store, &(struct metric_key){7, 1, 0, "loss"}, NULL, 0, NULL), WEFT_OK);
    assert_int_equal(metric_latest(store, 7, "loss", &found, &any, NULL), WEFT_OK);
    assert_false(any);
    assert_int_equal(metric_latest(store, 7, "los", &found, &any, NULL), WEFT_ERROR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_the_mean_of_all_ranks, begin, end),
        cmocka_unit_test_setup_teardown(ranks_that_are_ahead_are_taken_where_all_are, begin, end),
        cmocka_unit_test_setup_teardown(who_is_silent_is_not_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(the_newest_attempt_counts, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_finite_is_told, begin, end),
        cmocka_unit_test_setup_teardown(nothing_is_found_where_there_is_nothing, begin, end),
    };
    directory = temporary_directory();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
