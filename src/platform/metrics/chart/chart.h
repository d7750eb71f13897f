/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Charts: panels of curves over a common kind of x, drawn as one SVG without scripts, whose text is text. On a
 * background of its own, so that it can be read on light pages and dark ones. Thread-safe.
 */
#ifndef WEFT_PLATFORM_METRICS_CHART_CHART_H
#define WEFT_PLATFORM_METRICS_CHART_CHART_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum chart_style {
    CHART_FAINT,  /**< a thin, pale line: noise in the background */
    CHART_STRONG, /**< the main curve */
    CHART_DOTTED, /**< points joined by a thin line: few values, each of its own */
};

/** Points that are not finite are gaps. */
struct chart_curve {
    const double *x, *y;
    size_t count;
    enum chart_style style;
    unsigned color;    /**< number in the palette, modulo CHART_COLORS */
    const char *label; /**< in the legend; NULL: not there */
};

#define CHART_COLORS 8

struct chart_panel {
    const char *title;
    bool wide;                        /**< across the whole picture; others stand two in a row, and are lower */
    bool log;                         /**< y is logarithmic, where all of it is above 0 */
    bool zero;                        /**< y begins at 0, unless it is logarithmic */
    const struct chart_curve *curves; /**< later ones lie above earlier ones */
    size_t curve_count;
};

struct chart {
    const char *title;
    const char *subtitle; /**< "" : none */
    const char *x_title;
    const struct chart_panel *panels;
    size_t panel_count;
};

/** Draw; the caller frees *svg, a text of `*size` bytes. Errors: MEMORY. */
weft_status chart_draw(const struct chart *chart, char **svg, size_t *size, struct error *error);

#endif
