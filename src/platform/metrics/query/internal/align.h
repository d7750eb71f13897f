/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Several ranks over time as one curve. For platform/metrics/query/draw.c.
 *
 * Nodes take their samples at moments of their own, so that no two points have the same place: drawn one by one the
 * curve would jump from node to node. Here all ranks are in each part of the axis, and each counts once.
 */
#ifndef WEFT_PLATFORM_METRICS_QUERY_INTERNAL_ALIGN_H
#define WEFT_PLATFORM_METRICS_QUERY_INTERNAL_ALIGN_H

#include "platform/metrics/query/draw.h"
#include "platform/metrics/store/choice.h"

#define METRIC_ALIGN_HELD 3 /**< parts for which a rank that has no points counts as it did before */

/** Draw, as metric_draw() with `together`: what lies between extent[0] and extent[1], `points` in all. */
weft_status metric_align(struct metric_store *store, const struct metric_query *query,
                         const struct metric_choice *choice, const int64_t extent[2], uint64_t points, size_t most,
                         struct metric_curve *curve, struct error *error);

#endif
