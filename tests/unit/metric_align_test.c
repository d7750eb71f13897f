/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are each sampled by its own clock are one curve over time, in which each of them counts once. */
#include "base/random.h"
#include "platform/metrics/query/draw.h"
#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SECOND 1000000LL
#define BEGIN  (1700000000 * SECOND)

static const char *directory;
static struct metric_store *store;
static struct metric_curve curve;

static int begin(void **state)
{
    static unsigned stores;
    char name[32];
    struct error error = {0};
    snprintf(name, sizeof name, "align-%u.db", ++stores);
    if (metric_store_open(temporary_path(directory, name), &(struct metric_options){0}, &store, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return 0;
}

static int end(void **state)
{
    metric_curve_free(&curve);
    return metric_store_close(store, NULL) != WEFT_OK;
}

static void report(int64_t node, int64_t time, double value)
{
    const struct metric_point point = {time / SECOND, time, value};
    struct error error = {0};
    if (metric_store_append(store, &(struct metric_key){7, 1, node, "cpu"}, &point, 1, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void draw(size_t most)
{
    const struct metric_query query = {.run = 7,
                                       .name = "cpu",
                                       .rank = METRIC_ANY,
                                       .attempt = METRIC_ANY,
                                       .axis = METRIC_TIMES,
                                       .from = INT64_MIN,
                                       .to = INT64_MAX,
                                       .most = most,
                                       .together = true};
    struct error error = {0};
    metric_curve_free(&curve);
    if (metric_draw(store, &query, &curve, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(2 * curve.count <= (most ? most : METRIC_DRAW_MOST));
    for (size_t i = 1; i < curve.count; i++)
        assert_true(curve.parts[i].times[0] > curve.parts[i - 1].times[0]);
}

/* Every part is of both nodes, one at 0.1 and one at 0.9. */
static void check_both(void)
{
    for (size_t i = 0; i < curve.count; i++) {
        const struct metric_spread spread = metric_curve_spread(&curve, i);
        assert_true(fabs(spread.mean - 0.5) < 1e-9);
        assert_true(spread.lowest == 0.1 && spread.highest == 0.9);
    }
}

static void nodes_at_times_of_their_own(void **state)
{
    for (int i = 0; i < 200; i++) /* every 4 s and a bit, 0.7 s apart, and neither keeps time exactly */
        for (int node = 0; node < 2; node++)
            report(node,
                   BEGIN + i * 4003 * SECOND / 1000 + node * 7 * SECOND / 10 +
                       (int64_t)random_below(3, (uint64_t)(2 * i + node), 90000),
                   node ? 0.9 : 0.1);
    draw(0);
    assert_in_range(curve.count, 190, 205);
    assert_int_equal(curve.points, 400);
    check_both();
    draw(20); /* a picture of few points */
    assert_in_range(curve.count, 5, 10);
    assert_int_equal(curve.points, 400);
    check_both();
}

static void a_sample_that_is_missing_makes_no_tooth(void **state)
{
    for (int i = 0; i < 100; i++)
        for (int node = 0; node < 2; node++)
            if (node == 0 || i % 10 < 8)
                report(node, BEGIN + i * 5 * SECOND + node * SECOND, node ? 0.9 : 0.1);
    draw(0);
    assert_int_equal(curve.count, 100);
    check_both();
}

static void a_node_that_is_gone_counts_no_more(void **state)
{
    for (int i = 0; i < 100; i++)
        for (int node = 0; node < 2; node++)
            if (node == 0 || i < 50)
                report(node, BEGIN + i * 5 * SECOND + node * SECOND, node ? 0.9 : 0.1);
    draw(0);
    assert_int_equal(curve.count, 100);
    assert_true(metric_curve_spread(&curve, 40).mean == 0.5);
    assert_true(metric_curve_spread(&curve, 60).mean == 0.1);
}

static void a_gap_of_a_day_makes_no_part_wider(void **state)
{
    for (int i = 0; i < 100; i++)
        for (int node = 0; node < 2; node++)
            report(node, BEGIN + i * 5 * SECOND + (i >= 50 ? 86400 * SECOND : 0) + node * SECOND, node ? 0.9 : 0.1);
    draw(0);
    assert_int_equal(curve.count, 100);
    check_both();
}

static void many_points_and_summaries(void **state)
{
    for (int node = 0; node < 3; node++)
        for (int i = 0; i < 100000; i++) /* one of them twice as often, which gives it no more weight */
            report(node, BEGIN + i * (node == 2 ? 2 : 1) * SECOND + node, node == 2 ? 0.9 : 0.1);
    draw(600);
    assert_in_range(curve.count, 200, 300);
    assert_int_equal(curve.points, 300000);
    const struct metric_spread early = metric_curve_spread(&curve, 50);
    assert_true(fabs(early.mean - 1.1 / 3) < 1e-9 && early.lowest == 0.1 && early.highest == 0.9);
}

static void what_is_not_finite_and_single_points(void **state)
{
    report(0, -5 * SECOND, INFINITY); /* before 1970 */
    report(1, -9 * SECOND, -INFINITY);
    report(0, BEGIN, NAN);
    report(1, BEGIN + 2, 3);
    draw(0);
    assert_true(curve.points == 4 && curve.nan == 1 && curve.infinite[0] == 1 && curve.infinite[1] == 1);
    assert_true(isnan(metric_curve_spread(&curve, 0).mean));
    assert_true(metric_curve_spread(&curve, curve.count - 1).mean == 3);
    draw(2);
    assert_true(curve.count == 1 && curve.points == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_at_times_of_their_own, begin, end),
        cmocka_unit_test_setup_teardown(a_sample_that_is_missing_makes_no_tooth, begin, end),
        cmocka_unit_test_setup_teardown(a_node_that_is_gone_counts_no_more, begin, end),
        cmocka_unit_test_setup_teardown(a_gap_of_a_day_makes_no_part_wider, begin, end),
        cmocka_unit_test_setup_teardown(many_points_and_summaries, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_finite_and_single_points, begin, end),
    };
    directory = temporary_directory();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
