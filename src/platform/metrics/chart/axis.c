/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/chart/internal/axis.h"

#include <math.h>
#include <stdio.h>

#define VALUE_MOST 1e100 /* keeps all differences and products finite */

static double axis_within(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* The smallest of 1, 2, 5 times a power of ten that is not below `least`. */
static double round_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    const double digits = least / power;
    return power * (digits <= 1.000001 ? 1 : digits <= 2.000001 ? 2 : digits <= 5.000001 ? 5 : 10);
}

static void add_tick(struct chart_axis *axis, double value)
{
    const double place = chart_axis_place(axis, value);
    if (axis->tick_count < CHART_TICKS_MOST && place > -1e-9 && place < 1 + 1e-9)
        axis->ticks[axis->tick_count++] = value;
}

static void add_linear_ticks(struct chart_axis *axis, size_t wanted)
{
    const double step = round_step((axis->high - axis->low) / (double)wanted);
    axis->tick_count = 0;
    const double first = ceil(axis->low / step - 1e-9);
    for (int i = 0; i < CHART_TICKS_MOST; i++)
        add_tick(axis, (first + i) * step);
}

/* Powers of ten; with some or all of their multiples where these are few. */
static void add_log_ticks(struct chart_axis *axis, size_t wanted)
{
    static const double multiples[3][9] = {{1}, {1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
    static const size_t counts[3] = {1, 3, 9};
    const int first = (int)floor(log10(axis->low)), last = (int)ceil(log10(axis->high));
    const int every = (last - first - 1) / (int)wanted + 1;
    for (size_t set = 0; set < 3; set++) {
        if (set > 0 && every > 1)
            return;
        axis->tick_count = 0;
        for (int power = first; power <= last; power += every)
            for (size_t i = 0; i < counts[set]; i++)
                add_tick(axis, multiples[set][i] * pow(10, power));
        if (axis->tick_count >= 4)
            return;
    }
    add_linear_ticks(axis, wanted);
}

/* What labels are written in: thousands, millions ... of the largest value. */
static size_t suffix_of(double largest, double *unit)
{
    size_t suffix = 0;
    for (*unit = 1; largest / *unit >= 1e4 && suffix < 4; suffix++)
        *unit *= 1e3;
    return suffix;
}

/* Decimal places that a value needs, up to 4. */
static int digits_of(double value)
{
    int digits = 0;
    for (double rest = fabs(value); digits < 4 && fabs(rest - round(rest)) > 1e-6 * fmax(1, rest); digits++)
        rest *= 10;
    return digits;
}

static const char *const suffixes[] = {"", "k", "M", "G", "T"};

/* All in one unit, and with as many decimal places as one of them needs. */
static void write_linear_labels(struct chart_axis *axis)
{
    const double power = pow(10, axis->exponent);
    double unit;
    const size_t suffix = suffix_of(fmax(fabs(axis->low), fabs(axis->high)) / power, &unit);
    int digits = 0;
    for (size_t i = 0; i < axis->tick_count; i++) {
        const int needed = digits_of(axis->ticks[i] / power / unit);
        digits = needed > digits ? needed : digits;
    }
    for (size_t i = 0; i < axis->tick_count; i++) {
        const double value = axis->ticks[i] / power / unit;
        snprintf(axis->labels[i], CHART_LABEL_BYTES, "%s%.*f%s", value < 0 ? "\xe2\x88\x92" : "",
                 value == 0 ? 0 : digits, fabs(value), value == 0 ? "" : suffixes[suffix]);
    }
}

/* Each in a form of its own: they may lie far apart. */
static void write_log_labels(struct chart_axis *axis)
{
    for (size_t i = 0; i < axis->tick_count; i++) {
        double unit;
        const size_t suffix = suffix_of(axis->ticks[i], &unit);
        snprintf(axis->labels[i], CHART_LABEL_BYTES, "%.4g%s", axis->ticks[i] / unit, suffixes[suffix]);
    }
}

void chart_axis_make(struct chart_axis *axis, double low, double high, size_t wanted, bool log)
{
    *axis = (struct chart_axis){0};
    low = isfinite(low) ? axis_within(low, -VALUE_MOST, VALUE_MOST) : 0;
    high = isfinite(high) ? axis_within(high, -VALUE_MOST, VALUE_MOST) : low;
    if (low > high) {
        const double other = low;
        low = high;
        high = other;
    }
    axis->log = log && low > 1e-100;
    const double size = fmax(fabs(low), fabs(high));
    if (high - low <= 1e-6 * size || high - low < 1e-100) { /* about one value: it is in the middle */
        const double room = size > 1e-90 ? 0.5 * size : 1;
        low -= axis->log ? room / 2 : room;
        high += room;
    }
    axis->low = low;
    axis->high = high;
    if (axis->log) {
        add_log_ticks(axis, wanted);
        write_log_labels(axis);
        return;
    }
    const double largest = fmax(fabs(low), fabs(high));
    if (largest < 0.02 || largest >= 1e15)
        axis->exponent = 3 * (int)floor(log10(largest) / 3);
    add_linear_ticks(axis, wanted);
    for (size_t i = 0; i < axis->tick_count; i++)
        if (fabs(axis->ticks[i]) < 1e-9 * (high - low))
            axis->ticks[i] = 0;
    write_linear_labels(axis);
}

double chart_axis_place(const struct chart_axis *axis, double value)
{
    double place = (value - axis->low) / (axis->high - axis->low);
    if (axis->log)
        place = value > 0 ? (log(value) - log(axis->low)) / (log(axis->high) - log(axis->low)) : -1;
    return axis_within(place, -1, 2);
}
