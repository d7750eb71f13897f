/* SPDX-License-Identifier: Apache-2.0 */
/** An axis of a chart: its range, round ticks and their labels. Thread-safe. */
#ifndef WEFT_PLATFORM_METRICS_CHART_INTERNAL_AXIS_H
#define WEFT_PLATFORM_METRICS_CHART_INTERNAL_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#define CHART_TICKS_MOST  16
#define CHART_LABEL_BYTES 16

struct chart_axis {
    double low, high; /**< of what is shown, low < high */
    bool log;
    int exponent; /**< labels are values divided by 10 to this power, a multiple of 3; the axis's title tells it */
    size_t tick_count;
    double ticks[CHART_TICKS_MOST]; /**< rising, within low and high */
    char labels[CHART_TICKS_MOST][CHART_LABEL_BYTES];
};

/**
 * An axis for values from `low` to `high` with about `wanted` (2 to 10) ticks. Anything is taken: where low and high
 * are equal, swapped, too near to tell apart, or not finite, a range is chosen that can be shown. With `log`, both must
 * be above 0, or the axis is not logarithmic.
 */
void chart_axis_make(struct chart_axis *axis, double low, double high, size_t wanted, bool log);

/** Where `value`, a number, lies: 0 at low, 1 at high; what is far off counts as being nearer, at -1 or 2. */
double chart_axis_place(const struct chart_axis *axis, double value);

#endif
