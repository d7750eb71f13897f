/* SPDX-License-Identifier: Apache-2.0 */
/* Charts: round ticks for any range, curves thinned without losing their extremes, and a picture without a surprise. */
#include "platform/metrics/chart/chart.h"
#include "platform/metrics/chart/internal/axis.h"
#include "platform/metrics/chart/internal/curve.h"

#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void labels_are(const struct chart_axis *axis, const char *expected)
{
    char all[CHART_TICKS_MOST * (CHART_LABEL_BYTES + 1)] = "";
    for (size_t i = 0; i < axis->tick_count; i++)
        sprintf(all + strlen(all), "%s%s", i ? " " : "", axis->labels[i]);
    assert_string_equal(all, expected);
}

static void ticks_are_round(void **state)
{
    struct chart_axis axis;
    chart_axis_make(&axis, 1.2, 5.6, 6, false);
    labels_are(&axis, "2 3 4 5");
    chart_axis_make(&axis, 1.21, 1.69, 6, false);
    labels_are(&axis, "1.3 1.4 1.5 1.6");
    chart_axis_make(&axis, 0, 0.003, 4, false);
    assert_int_equal(axis.exponent, -3);
    labels_are(&axis, "0 1 2 3");
    chart_axis_make(&axis, 0, 27000, 4, false);
    labels_are(&axis, "0 10k 20k");
    chart_axis_make(&axis, -2, 2, 4, false);
    labels_are(&axis, "\xe2\x88\x92"
                      "2 \xe2\x88\x92"
                      "1 0 1 2");
    chart_axis_make(&axis, 0.001, 1000, 6, true);
    labels_are(&axis, "0.001 0.01 0.1 1 10 100 1000");
    chart_axis_make(&axis, 1.3, 5.6, 6, true);
    labels_are(&axis, "2 3 4 5");
    chart_axis_make(&axis, 1.5, 1.9, 4, true);
    labels_are(&axis, "1.5 1.6 1.7 1.8 1.9");
    assert_true(fabs(chart_axis_place(&axis, 1.5)) < 1e-12 && fabs(chart_axis_place(&axis, 1.9) - 1) < 1e-12);
}

/* Whatever the numbers are: a range that can be shown, ticks within it, rising. */
static void any_range_has_an_axis(void **state)
{
    static const double odd[] = {0,   -0.0, 1,   -1,   1e-310, 1e308,    -1e308, INFINITY, -INFINITY,
                                 NAN, 1e-9, 1e9, 1e15, 1e-15,  1.000001, 5e-324, 1e-101,   0.02};
    const size_t count = sizeof odd / sizeof *odd;
    for (size_t i = 0; i < count * count * 2; i++) {
        struct chart_axis axis;
        chart_axis_make(&axis, odd[i / 2 / count], odd[i / 2 % count], 2 + i % 9, i % 2);
        assert_true(isfinite(axis.low) && isfinite(axis.high) && axis.low < axis.high);
        assert_in_range(axis.tick_count, 0, CHART_TICKS_MOST);
        for (size_t t = 0; t < axis.tick_count; t++) {
            const double place = chart_axis_place(&axis, axis.ticks[t]);
            assert_true(place > -1e-6 && place < 1 + 1e-6);
            assert_true(t == 0 || axis.ticks[t] > axis.ticks[t - 1]);
            assert_true(*axis.labels[t]);
        }
    }
}

static void a_thin_curve_keeps_its_extremes(void **state)
{
    enum { COUNT = 100003 };
    double *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    for (int i = 0; i < COUNT; i++) {
        x[i] = i;
        y[i] = random_normal(1, (uint64_t)i);
    }
    y[777] = 50;
    y[99998] = -60;
    const size_t kept = curve_thin(x, y, COUNT, 2000);
    assert_in_range(kept, 1900, 2000);
    bool high = false, low = false;
    for (size_t i = 0; i < kept; i++) {
        high |= x[i] == 777 && y[i] == 50;
        low |= x[i] == 99998 && y[i] == -60;
        assert_true(i == 0 || x[i] > x[i - 1]);
        assert_true(x[i] == 777 || x[i] == 99998 || y[i] == random_normal(1, (uint64_t)x[i]));
    }
    assert_true(high && low);
    assert_int_equal(curve_thin(x, y, kept, 2000), kept);
    /* A stretch of gaps stays one. */
    for (int i = 0; i < COUNT; i++) {
        x[i] = i;
        y[i] = i > 40000 && i < 60000 ? NAN : 1;
    }
    const size_t rest = curve_thin(x, y, COUNT, 100);
    size_t gaps = 0;
    for (size_t i = 0; i < rest; i++)
        gaps += isnan(y[i]) != 0;
    assert_in_range(gaps, 5, 30);
    free(x);
    free(y);
}

static void smoothing_keeps_ends_means_and_gaps(void **state)
{
    const double values[] = {9, 1, 1, 4, 1, 1, NAN, 1, 1, 7};
    double smooth[10];
    assert_int_equal(curve_smooth(values, 10, 2, smooth, NULL), WEFT_OK);
    assert_true(smooth[0] == 9 && smooth[9] == 7); /* the ends have no neighbors on both sides */
    assert_true(isnan(smooth[6]));
    assert_true(smooth[3] > 1 && smooth[3] < 4);
    assert_int_equal(curve_smooth(values, 10, 0, smooth, NULL), WEFT_OK);
    for (size_t i = 0; i < 10; i++)
        assert_true(smooth[i] == values[i] || i == 6);
    const double flat[] = {2.5, 2.5, 2.5, 2.5};
    assert_int_equal(curve_smooth(flat, 4, 1000, smooth, NULL), WEFT_OK);
    for (size_t i = 0; i < 4; i++)
        assert_true(smooth[i] == 2.5);
}

static void names_cannot_break_out_of_the_picture(void **state)
{
    const double x[] = {1, 2, 3, 4}, y[] = {1, NAN, INFINITY, 2};
    const struct chart_curve curves[] = {
        {.x = x, .y = y, .count = 4, .style = CHART_STRONG, .label = "<script>alert(1)</script>"},
        {.x = x, .y = y, .count = 4, .style = CHART_DOTTED, .color = 900, .label = "a & b \x01\xff"},
        {.x = x, .y = y, .count = 0, .style = CHART_FAINT},
    };
    const struct chart_panel panels[] = {
        {.title = "one", .wide = true, .curves = curves, .curve_count = 3},
        {.title = "two", .zero = true, .curves = curves, .curve_count = 1},
        {.title = "three", .log = true, .curves = curves, .curve_count = 2},
        {.title = "none", .curves = curves, .curve_count = 0},
    };
    char *svg;
    size_t size;
    assert_int_equal(
        chart_draw(
            &(struct chart){
                .title = "</title><script>", .subtitle = "", .x_title = "step", .panels = panels, .panel_count = 4},
            &svg, &size, NULL),
        WEFT_OK);
    assert_int_equal(strlen(svg), size);
    assert_null(strstr(svg, "<script"));
    assert_non_null(strstr(svg, "&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_non_null(strstr(svg, "a &amp; b ??"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    free(svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(any_range_has_an_axis),
        cmocka_unit_test(a_thin_curve_keeps_its_extremes),
        cmocka_unit_test(smoothing_keeps_ends_means_and_gaps),
        cmocka_unit_test(names_cannot_break_out_of_the_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
