/* SPDX-License-Identifier: Apache-2.0 */
/** Curves of many points made fit for a picture. Values that are not finite are gaps, and stay so. Thread-safe. */
#ifndef WEFT_PLATFORM_METRICS_CHART_INTERNAL_CURVE_H
#define WEFT_PLATFORM_METRICS_CHART_INTERNAL_CURVE_H

#include "base/error.h"

#include <stddef.h>

/** smooth[i] = mean of mean of the values around i, of `reach` on either side (fewer near the ends, so that a steep
 * beginning stays one). `smooth` has room for `count` and is not `values`. */
weft_status curve_smooth(const double *values, size_t count, size_t reach, double *smooth, struct error *error);

/**
 * At most `most` (2 at least) points of the curve, in place: of each group of neighbors the lowest and the highest are
 * kept, in their order; a group without values leaves a gap. Returns the new number of points.
 */
size_t curve_thin(double *x, double *y, size_t count, size_t most);

#endif
