/* SPDX-License-Identifier: Apache-2.0 */
/* Curves drawn from blocks and levels are those that all points would give: which are drawn, their lowest and highest.
 */
#include "platform/metrics/query/draw.h"
#include "platform/metrics/store/names.h"
#include "platform/metrics/store/points.h"

#include "base/clock.h"
#include "base/random.h"
#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define POINTS_MOST 300000

static const char *directory;
static unsigned stores;

/* What was reported, in order. */
static struct {
    int64_t rank, attempt;
    struct metric_point point;
} reported[POINTS_MOST];
static size_t reports;

static struct metric_store *new_store(void)
{
    char name[32];
    struct metric_store *store = NULL;
    struct error error = {0};
    snprintf(name, sizeof name, "draw-%u.db", ++stores);
    reports = 0;
    if (metric_store_open(temporary_path(directory, name), &(struct metric_options){0}, &store, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return store;
}

static void report(struct metric_store *store, int64_t rank, int64_t attempt, int64_t step, double value)
{
    const struct metric_point point = {step, 1700000000000000 + (int64_t)reports * 1000, value};
    struct error error = {0};
    assert_true(reports < POINTS_MOST);
    reported[reports].rank = rank;
    reported[reports].attempt = attempt;
    reported[reports++].point = point;
    if (metric_store_append(store, &(struct metric_key){7, attempt, rank, "loss"}, &point, 1, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void draw(struct metric_store *store, const struct metric_query *query, struct metric_curve *curve)
{
    struct error error = {0};
    if (metric_draw(store, query, curve, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static const struct metric_query everything = {
    .run = 7, .name = "loss", .rank = METRIC_ANY, .attempt = METRIC_ANY, .from = INT64_MIN, .to = INT64_MAX};

/* The rule of platform/metrics/query/draw.h, taken literally: every point against all others. Marks those that are drawn. */
static struct metric_summary expected_of(const struct metric_query *query, bool *drawn)
{
    struct metric_summary all = {0};
    for (size_t i = 0; i < reports; i++)
        drawn[i] = false;
    for (int64_t rank = 0; rank < 16; rank++) {
        if (query->rank != METRIC_ANY && rank != query->rank)
            continue;
        int64_t below = INT64_MAX;
        for (int64_t attempt = 16; attempt > 0; attempt--) {
            int64_t lowest = INT64_MAX;
            if (query->attempt != METRIC_ANY && attempt != query->attempt)
                continue;
            for (size_t i = reports; i-- > 0;) {
                const struct metric_point *point = &reported[i].point;
                if (reported[i].rank != rank || reported[i].attempt != attempt)
                    continue;
                const int64_t place = query->axis == METRIC_TIMES ? point->time : point->step;
                drawn[i] = point->step <= lowest && point->step < below && place >= query->from && place <= query->to;
                lowest = point->step < lowest ? point->step : lowest;
            }
            below = lowest < below ? lowest : below;
        }
    }
    for (size_t i = 0; i < reports; i++)
        if (drawn[i])
            metric_summary_point(&all, &reported[i].point);
    return all;
}

/* The curve is made of the expected points, is no larger than asked for, and rises along the axis; no part is wider
 * than two parts of the picture. */
static void check(struct metric_store *store, const struct metric_query *query)
{
    static bool drawn[POINTS_MOST];
    const struct metric_summary expected = expected_of(query, drawn);
    const size_t most = query->most ? query->most : METRIC_DRAW_MOST;
    struct metric_summary all = {0};
    struct metric_curve curve;
    size_t points = 0;
    draw(store, query, &curve);
    assert_int_equal(curve.points, expected.count);
    const int64_t *extent = query->axis == METRIC_TIMES ? expected.times : expected.steps;
    for (size_t i = 0; i < curve.count; i++) {
        const struct metric_summary *part = &curve.parts[i];
        const int64_t *range = query->axis == METRIC_TIMES ? part->times : part->steps;
        assert_true(part->count > 0);
        metric_summary_add(&all, part);
        points += part->count > 1 ? 2 : 1;
        if (curve.whole)
            assert_int_equal(range[0], range[1]);
        else
            assert_true((double)(range[1] - range[0]) <=
                        2.01 * (double)(extent[1] - extent[0]) / ((double)most / 2) + 1);
        if (i > 0) /* the middles rise */
            assert_true(range[0] + range[1] > (query->axis == METRIC_TIMES ? part[-1].times[0] + part[-1].times[1]
                                                                           : part[-1].steps[0] + part[-1].steps[1]));
        const double mean = metric_summary_mean(part);
        if (metric_summary_finite(part) > 0)
            assert_true(mean >= part->lowest.value && mean <= part->highest.value);
        else
            assert_true(isnan(mean));
    }
    assert_true(points <= most);
    assert_int_equal(all.count, expected.count);
    assert_int_equal(all.nan, expected.nan);
    assert_int_equal(curve.nan, expected.nan);
    for (int sign = 0; sign < 2; sign++)
        assert_int_equal(curve.infinite[sign], expected.infinite[sign]);
    if (metric_summary_finite(&expected) > 0) {
        assert_true(all.lowest.value == expected.lowest.value && all.highest.value == expected.highest.value);
        assert_true(fabs(all.sum - expected.sum) <= 1e-9 * (fabs(expected.sum) + (double)expected.count));
    }
    metric_curve_free(&curve);
}

/* Of all sizes, over the whole and over ranges, by both axes, by attempt and by rank. */
static void check_all(struct metric_store *store, uint64_t seed, int64_t ranks, int64_t attempts)
{
    int64_t steps[2] = {INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < reports; i++) {
        const int64_t step = reported[i].point.step;
        steps[0] = step < steps[0] ? step : steps[0];
        steps[1] = step > steps[1] ? step : steps[1];
    }
    for (uint64_t i = 0; i < 60; i++) {
        const size_t sizes[] = {0, 2, 100, 2000, 20000};
        struct metric_query query = everything;
        query.most = sizes[i % 5];
        query.axis = i % 2 ? METRIC_TIMES : METRIC_STEPS;
        if (i % 3 == 1)
            query.rank = (int64_t)random_below(seed, 10 * i, (uint64_t)ranks);
        if (i % 4 == 3)
            query.attempt = 1 + (int64_t)random_below(seed, 10 * i + 1, (uint64_t)attempts);
        if (i % 7 > 2) {
            const int64_t least = query.axis == METRIC_TIMES ? reported[0].point.time : steps[0];
            const int64_t greatest = query.axis == METRIC_TIMES ? reported[reports - 1].point.time : steps[1];
            const uint64_t width = (uint64_t)(greatest - least + 1);
            query.from = least + (int64_t)random_below(seed, 10 * i + 2, width);
            query.to = query.from + (int64_t)random_below(seed, 10 * i + 3, width / (1 + i % 5 * 20) + 1);
        }
        check(store, &query);
    }
}

static double some_value(size_t i)
{
    const uint64_t bits = random_bits(3, i);
    return bits % 1000 == 0   ? NAN
           : bits % 1000 == 1 ? INFINITY
           : bits % 1000 == 2 ? -INFINITY
           : bits % 5000 == 7 ? 1e6 * random_normal(4, i)
                              : sin((double)i / 5000) + random_normal(5, i) / 10;
}

static void a_long_curve(void **state)
{
    struct metric_store *store = new_store();
    for (int64_t i = 0; i < 200000; i++)
        report(store, 0, 1, 10 * i, some_value((size_t)i));
    check_all(store, 1, 1, 1);
    metric_store_close(store, NULL);
}

static void steps_taken_again_by_later_attempts(void **state)
{
    struct metric_store *store = new_store();
    int64_t step = 0;
    for (int64_t attempt = 1; attempt <= 9; attempt++) {
        const int64_t count = 1 + (int64_t)random_below(20, (uint64_t)attempt, 9000);
        step = (int64_t)random_below(21, (uint64_t)attempt, (uint64_t)step + 1);
        for (int64_t i = 0; i < count; i++)
            report(store, 0, attempt, step++, some_value(reports));
    }
    check_all(store, 2, 1, 9);
    metric_store_close(store, NULL);
}

static void an_attempt_that_goes_back_itself(void **state)
{
    struct metric_store *store = new_store();
    int64_t step = 0;
    for (uint64_t i = 0; i < 60000; i++) {
        const uint64_t bits = random_bits(30, i);
        if (bits % 9973 == 0)
            step = (int64_t)(random_bits(31, i) % (uint64_t)(step + 1)); /* far */
        else if (bits % 97 == 0)
            step -= step > 5 ? 3 : 0; /* a bit */
        else if (bits % 5 != 0)
            step++;
        report(store, 0, 1, step, some_value(reports));
    }
    check_all(store, 3, 1, 1);
    metric_store_close(store, NULL);
}

/* Seldom and far, so that whole blocks rise and are hidden in part by what came later. */
static void an_attempt_that_goes_back_far(void **state)
{
    struct metric_store *store = new_store();
    int64_t step = 0;
    for (uint64_t i = 0; i < 60000; i++) {
        if (i % 7001 == 7000)
            step -= 2500 + (int64_t)random_below(40, i, 500);
        report(store, 0, 1, step++, some_value(reports));
    }
    check_all(store, 8, 1, 1);
    metric_store_close(store, NULL);
}

static void many_ranks_as_one_curve(void **state)
{
    struct metric_store *store = new_store();
    for (int64_t step = 0; step < 6000; step++)
        for (int64_t rank = 0; rank < 7; rank++)
            for (int64_t attempt = 1; attempt <= (step > 3000 && rank > 2 ? 2 : 1); attempt++)
                report(store, rank, attempt, step - (attempt == 2 ? 500 : 0), some_value(reports));
    check_all(store, 4, 7, 2);
    metric_store_close(store, NULL);
}

static void odd_steps(void **state)
{
    struct metric_store *store = new_store();
    for (int64_t i = 0; i < 5000; i++) /* all but one at one place */
        report(store, 0, 1, i / 1000, some_value(reports));
    report(store, 0, 1, METRIC_NUMBER_MOST, 1);
    check_all(store, 5, 1, 1);
    metric_store_close(store, NULL);
    store = new_store();
    for (int64_t i = 0; i < 5000; i++)
        report(store, 0, 1, 42, (double)i);
    check_all(store, 6, 1, 1);
    metric_store_close(store, NULL);
    store = new_store();
    for (int64_t i = 0; i < 40000; i++) /* falling all the way: only the last is drawn */
        report(store, 0, 1, -i, (double)i);
    check_all(store, 7, 1, 1);
    metric_store_close(store, NULL);
}

/* The promises in small, by hand. */
static void the_later_attempt_is_drawn_and_both_stay(void **state)
{
    struct metric_store *store = new_store();
    struct metric_query query = everything;
    struct metric_curve curve;
    for (int64_t step = 1; step <= 10; step++)
        report(store, 0, 1, step, 1);
    for (int64_t step = 6; step <= 8; step++)
        report(store, 0, 2, step, 2);
    draw(store, &query, &curve);
    assert_int_equal(curve.count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(curve.parts[i].steps[0], i + 1);
        assert_true(metric_summary_mean(&curve.parts[i]) == (i < 5 ? 1 : 2));
    }
    metric_curve_free(&curve);
    query.attempt = 1;
    draw(store, &query, &curve);
    assert_int_equal(curve.count, 10);
    metric_curve_free(&curve);
    /* Points of the earlier attempt that were on their way for long change nothing. */
    report(store, 0, 1, 11, 1);
    query.attempt = METRIC_ANY;
    draw(store, &query, &curve);
    assert_int_equal(curve.count, 8);
    metric_curve_free(&curve);
    metric_store_close(store, NULL);
}

static void ranks_have_a_mean_a_minimum_and_a_maximum(void **state)
{
    struct metric_store *store = new_store();
    struct metric_query query = everything;
    struct metric_curve curve;
    int64_t *ranks;
    size_t count;
    for (int64_t step = 0; step < 900; step++)
        for (int64_t rank = 0; rank < 4; rank++)
            report(store, rank, 1, step, rank == 3 && step == 7 ? NAN : (double)(step + rank));
    draw(store, &query, &curve);
    assert_int_equal(curve.count, 900);
    assert_true(curve.whole);
    assert_true(curve.parts[5].lowest.value == 5 && curve.parts[5].highest.value == 8);
    assert_true(metric_summary_mean(&curve.parts[5]) == 6.5);
    assert_int_equal(curve.parts[7].nan, 1);
    assert_true(metric_summary_mean(&curve.parts[7]) == 8);
    metric_curve_free(&curve);
    query.rank = 2;
    draw(store, &query, &curve);
    assert_int_equal(curve.count, 900);
    assert_true(metric_summary_mean(&curve.parts[5]) == 7 && curve.parts[5].count == 1);
    metric_curve_free(&curve);
    assert_int_equal(metric_ranks(store, 7, "loss", &ranks, &count, NULL), WEFT_OK);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ranks[i], i);
    free(ranks);
    metric_store_close(store, NULL);
}

struct passed_on {
    size_t count, most;
    int64_t rank, attempt;
};

static weft_status take_point(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                              struct error *error)
{
    struct passed_on *passed = state;
    size_t skip = 0;
    if (rank != passed->rank || attempt != passed->attempt) {
        assert_true(rank > passed->rank || (rank == passed->rank && attempt > passed->attempt));
        passed->rank = rank;
        passed->attempt = attempt;
        passed->count = 0;
    }
    for (size_t i = 0; i < reports; i++) /* the next one that was reported of these */
        if (reported[i].rank == rank && reported[i].attempt == attempt && skip++ == passed->count) {
            assert_memory_equal(point, &reported[i].point, sizeof *point);
            break;
        }
    passed->count++;
    return passed->most-- == 0 ? error_set(error, WEFT_ERROR_SYSTEM, "enough") : WEFT_OK;
}

static weft_status points_each(struct metric_store *store, const char *name, int64_t rank, int64_t attempt,
                               struct passed_on *passed, struct error *error)
{
    struct metric_place place = {0};
    bool done;
    return metric_points_page(store, 7, name, rank, attempt, &place, SIZE_MAX, take_point, passed, &done, error);
}

struct newest {
    int64_t rank, attempt; /* of the point; 0: none yet */
    struct metric_point point;
};

static weft_status take_newest(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                               struct error *error)
{
    struct newest *newest = state;
    if (rank == newest->rank && attempt > newest->attempt)
        *newest = (struct newest){rank, attempt, *point};
    return WEFT_OK;
}

/* The newest point of a rank's newest attempt. */
static struct newest newest_of(struct metric_store *store, int64_t rank)
{
    struct newest newest = {.rank = rank};
    assert_int_equal(metric_points_newest(store, 7, "loss", take_newest, &newest, NULL), WEFT_OK);
    return newest;
}

static void points_are_exported_as_they_came(void **state)
{
    struct metric_store *store = new_store();
    struct passed_on passed = {.most = 10000, .rank = -1};
    struct error error = {0};
    for (int64_t i = 0; i < 600; i++)
        for (int64_t rank = 0; rank < 3; rank++)
            report(store, rank, 1 + (i > 400) + (rank == 1 && i > 500), i % 450, i % 7 == 0 ? NAN : (double)i);
    assert_int_equal(points_each(store, "loss", METRIC_ANY, METRIC_ANY, &passed, NULL), WEFT_OK);
    assert_int_equal(10000 - passed.most, 1800);
    passed = (struct passed_on){.most = 10000, .rank = -1};
    assert_int_equal(points_each(store, "loss", 1, 2, &passed, NULL), WEFT_OK);
    assert_int_equal(10000 - passed.most, 100);
    passed = (struct passed_on){.most = 700, .rank = -1};
    assert_int_equal(points_each(store, "loss", METRIC_ANY, METRIC_ANY, &passed, &error), WEFT_ERROR_SYSTEM);
    assert_string_equal(error.text, "enough");
    error_clear(&error);
    assert_int_equal(points_each(store, "los", METRIC_ANY, METRIC_ANY, &passed, &error), WEFT_ERROR_DATA);
    for (int64_t rank = 0; rank < 3; rank++) {
        const struct newest last = newest_of(store, rank);
        assert_true(last.attempt > 0);
        assert_memory_equal(&last.point, &reported[reports - 3 + (size_t)rank].point, sizeof last.point);
    }
    for (int64_t i = 0; i < 312; i++) /* to where blocks are whole */
        report(store, 0, 2, i, 1);
    assert_true(newest_of(store, 0).attempt > 0);
    assert_int_equal(newest_of(store, 0).point.step, 311);
    assert_int_equal(newest_of(store, 9).attempt, 0);
    metric_store_close(store, NULL);
}

static void names_are_listed_with_their_groups(void **state)
{
    struct metric_store *store = new_store();
    const char *given[] = {"train/loss", "eval/de/bleu", "lr", "train/accuracy"};
    const char *sorted[] = {"eval/de/bleu", "lr", "train/accuracy", "train/loss"};
    const size_t groups[] = {7, 0, 5, 5};
    const struct metric_point point = {1, 1, 1};
    struct metric_name *names;
    struct metric_curve curve;
    struct error error = {0};
    size_t count;
    for (size_t i = 0; i < 4; i++)
        for (int64_t rank = 0; rank <= (int64_t)i; rank++)
            assert_int_equal(
                metric_store_append(store, &(struct metric_key){7, 1 + rank % 2, rank, given[i]}, &point, 1, NULL),
                WEFT_OK);
    assert_int_equal(metric_names(store, 7, &names, &count, NULL), WEFT_OK);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(names[i].name, sorted[i]);
        assert_int_equal(names[i].group, groups[i]);
    }
    assert_int_equal(names[2].ranks, 4);
    assert_int_equal(names[2].attempts, 2);
    free(names);
    assert_int_equal(metric_names(store, 8, &names, &count, NULL), WEFT_OK);
    assert_int_equal(count, 0);
    free(names);
    struct metric_query query = everything;
    query.name = "train/los";
    assert_int_equal(metric_draw(store, &query, &curve, &error), WEFT_ERROR_DATA);
    assert_string_equal(error.text, "run 7 has no metric 'train/los'; is 'train/loss' meant?");
    query.name = "train/loss";
    query.rank = 9;
    draw(store, &query, &curve);
    assert_int_equal(curve.count, 0);
    metric_curve_free(&curve);
    metric_store_close(store, NULL);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_curve),
        cmocka_unit_test(steps_taken_again_by_later_attempts),
        cmocka_unit_test(an_attempt_that_goes_back_itself),
        cmocka_unit_test(an_attempt_that_goes_back_far),
        cmocka_unit_test(many_ranks_as_one_curve),
        cmocka_unit_test(odd_steps),
        cmocka_unit_test(the_later_attempt_is_drawn_and_both_stay),
        cmocka_unit_test(ranks_have_a_mean_a_minimum_and_a_maximum),
        cmocka_unit_test(points_are_exported_as_they_came),
        cmocka_unit_test(names_are_listed_with_their_groups),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
