/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks and summaries of metrics: every bit comes back, damage is refused, levels are what their points are. */
#include "platform/metrics/store/internal/summary.h"

#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t there_and_back(const struct metric_point *points, size_t count)
{
    uint8_t bytes[METRIC_BLOCK_BYTES + 1];
    struct metric_point read[METRIC_BLOCK_POINTS];
    size_t found, used;
    bytes[METRIC_BLOCK_BYTES] = 77;
    const size_t size = metric_block_write(points, count, bytes);
    assert_true(size <= METRIC_BLOCK_BYTES);
    assert_int_equal(bytes[METRIC_BLOCK_BYTES], 77);
    assert_int_equal(metric_block_read(bytes, size, "here", read, &found, NULL, NULL), WEFT_OK);
    assert_int_equal(found, count);
    assert_memory_equal(read, points, count * sizeof *points);
    /* With something after it. */
    assert_int_equal(metric_block_read(bytes, sizeof bytes, "here", read, &found, &used, NULL), WEFT_OK);
    assert_int_equal(used, size);
    assert_int_equal(metric_block_read(bytes, size + 1, "here", read, &found, NULL, NULL), WEFT_ERROR_DATA);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(metric_block_read(bytes, cut, "here", read, &found, &used, NULL), WEFT_ERROR_DATA);
    return size;
}

static void every_bit_comes_back(void **state)
{
    static struct metric_point points[METRIC_BLOCK_POINTS];
    for (uint64_t round = 0; round < 50; round++) {
        const size_t count = round == 0 ? METRIC_BLOCK_POINTS : 1 + random_bits(round, 0) % METRIC_BLOCK_POINTS;
        for (size_t i = 0; i < count; i++)
            points[i] =
                (struct metric_point){(int64_t)random_bits(round, 3 * i), (int64_t)random_bits(round, 3 * i + 1),
                                      double_of(random_bits(round, 3 * i + 2))};
        there_and_back(points, count);
    }
    const double odd[] = {0.0,
                          -0.0,
                          NAN,
                          -NAN,
                          INFINITY,
                          -INFINITY,
                          5e-324,
                          1e308,
                          0.1,
                          double_of(0x7ff0000000000001),
                          double_of(0xfff8000000000123),
                          double_of(0x7ff8000020000000)};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const struct metric_point one = {INT64_MIN, INT64_MAX, odd[i]}, two[] = {one, {INT64_MAX, INT64_MIN, 1}};
        there_and_back(&one, 1);
        there_and_back(two, 2);
    }
}

static void a_usual_point_takes_eight_bytes(void **state)
{
    static struct metric_point points[METRIC_BLOCK_POINTS];
    for (int64_t i = 0; i < METRIC_BLOCK_POINTS; i++)
        points[i] =
            (struct metric_point){10 * i + 5000, 1700000000000000 + 412345 * i, (double)(1.0f / (float)(i + 1))};
    assert_true(there_and_back(points, METRIC_BLOCK_POINTS) < 9 * METRIC_BLOCK_POINTS);
    points[7].value = 0.1; /* no float */
    assert_true(there_and_back(points, METRIC_BLOCK_POINTS) < 13 * METRIC_BLOCK_POINTS);
}

static void strangers_are_refused(void **state)
{
    const struct metric_point one = {1, 2, 3};
    uint8_t bytes[METRIC_BLOCK_BYTES];
    struct metric_point read[METRIC_BLOCK_POINTS];
    struct error error = {0};
    size_t count;
    const size_t size = metric_block_write(&one, 1, bytes);
    bytes[0] = 2;
    assert_int_equal(metric_block_read(bytes, size, "block 3 of series 7", read, &count, NULL, &error),
                     WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "block 3 of series 7"));
    const uint8_t none[] = {1, 0, 0}, many[] = {1, 0, 0x81, 2, 0, 0};
    assert_int_equal(metric_block_read(none, sizeof none, "", read, &count, NULL, NULL), WEFT_ERROR_DATA);
    assert_int_equal(metric_block_read(many, sizeof many, "", read, &count, NULL, NULL), WEFT_ERROR_DATA);
}

/* ---- summaries ---- */

static void equal(const struct metric_summary *left, const struct metric_summary *right)
{
    uint8_t bytes[2][METRIC_SUMMARY_BYTES];
    metric_summary_write(left, bytes[0]);
    metric_summary_write(right, bytes[1]);
    assert_memory_equal(bytes[0], bytes[1], METRIC_SUMMARY_BYTES);
}

static void a_summary_says_what_its_points_are(void **state)
{
    const struct metric_point points[] = {{1, 100, NAN},      {3, 90, 4},          {4, 130, -2},
                                          {4, 140, INFINITY}, {5, 150, 4},         {6, 160, -INFINITY},
                                          {7, 170, -2},       {7, 180, -INFINITY}, {8, 190, 0.125}};
    const size_t count = sizeof points / sizeof *points;
    for (size_t cut = 0; cut <= count; cut++) {
        struct metric_summary first = metric_summary_of(points, cut),
                              second = metric_summary_of(points + cut, count - cut);
        metric_summary_add(&first, &second);
        assert_int_equal(first.count, 9);
        assert_int_equal(first.nan, 1);
        assert_int_equal(first.infinite[0], 2);
        assert_int_equal(first.infinite[1], 1);
        assert_int_equal(metric_summary_finite(&first), 5);
        assert_true(first.sum == 4.125);
        assert_memory_equal(&first.lowest, &points[2], sizeof *points); /* the first of equal ones */
        assert_memory_equal(&first.highest, &points[1], sizeof *points);
        assert_int_equal(first.steps[0], 1);
        assert_int_equal(first.steps[1], 8);
        assert_int_equal(first.times[0], 90);
        assert_int_equal(first.times[1], 190);
        assert_true(first.rising);
    }
    const struct metric_point back[] = {{5, 1, 1}, {4, 2, 1}};
    const struct metric_summary falling = metric_summary_of(back, 2);
    struct metric_summary parts = metric_summary_of(back, 1), second = metric_summary_of(back + 1, 1);
    metric_summary_add(&parts, &second);
    assert_false(falling.rising || parts.rising);
}

static void summaries_come_back_or_are_refused(void **state)
{
    const struct metric_point points[] = {{-5, -100, NAN}, {3, 90, 4}, {2, 130, -2}};
    const struct metric_summary summary = metric_summary_of(points, 3);
    struct metric_summary read;
    uint8_t bytes[METRIC_SUMMARY_BYTES];
    metric_summary_write(&summary, bytes);
    assert_int_equal(metric_summary_read(bytes, sizeof bytes, "", &read, NULL), WEFT_OK);
    equal(&read, &summary);
    assert_int_equal(metric_summary_read(bytes, sizeof bytes - 1, "", &read, NULL), WEFT_ERROR_DATA);
    bytes[0] = 0; /* of no points, one of them NaN */
    assert_int_equal(metric_summary_read(bytes, sizeof bytes, "", &read, NULL), WEFT_ERROR_DATA);
    metric_summary_write(&summary, bytes);
    bytes[8] = 9; /* more NaN than points */
    assert_int_equal(metric_summary_read(bytes, sizeof bytes, "", &read, NULL), WEFT_ERROR_DATA);
}

struct heard {
    unsigned counts[METRIC_LEVELS];
    struct metric_summary all[METRIC_LEVELS];
};

static weft_status hear(void *state, unsigned level, const struct metric_summary *summary, struct error *error)
{
    struct heard *heard = state;
    uint64_t points = 1;
    for (unsigned i = 0; i < level; i++)
        points *= METRIC_FAN;
    assert_int_equal(summary->count, points);
    assert_int_equal(summary->steps[0], heard->counts[level] * points); /* in order, none left out */
    heard->counts[level]++;
    metric_summary_add(&heard->all[level], summary);
    return WEFT_OK;
}

static void levels_grow_with_their_blocks(void **state)
{
    struct metric_levels levels = {0};
    struct heard heard = {0};
    struct metric_summary all = {0};
    const unsigned blocks = METRIC_FAN * METRIC_FAN * 3 + METRIC_FAN * 5 + 7;
    for (unsigned i = 0; i < blocks; i++) {
        const struct metric_point point = {i, i, (double)(random_bits(1, i) % 1000)};
        const struct metric_summary block = metric_summary_of(&point, 1);
        metric_summary_add(&all, &block);
        assert_int_equal(metric_levels_add(&levels, &block, hear, &heard, NULL), WEFT_OK);
    }
    equal(&heard.all[0], &all);
    const unsigned expected[METRIC_LEVELS] = {blocks, blocks / METRIC_FAN, 3};
    assert_memory_equal(heard.counts, expected, sizeof expected);
    for (unsigned level = 1; level < METRIC_LEVELS - 1; level++) { /* what is whole and what is not make up all */
        for (unsigned below = level; below >= 1; below--)
            metric_summary_add(&heard.all[level], &levels.partial[below]);
        heard.all[level].lowest = all.lowest; /* which of equal ones depends on the order */
        heard.all[level].highest = all.highest;
        if (level <= 2)
            equal(&heard.all[level], &all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_comes_back),
        cmocka_unit_test(a_usual_point_takes_eight_bytes),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_summary_says_what_its_points_are),
        cmocka_unit_test(summaries_come_back_or_are_refused),
        cmocka_unit_test(levels_grow_with_their_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
