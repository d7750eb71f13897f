/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Through a series from its last point to its first, over summaries wherever they are fine enough. For platform/metrics/query/draw.c.
 *
 * From the end to the beginning, because whether a point is drawn depends on those that came after it: it is not if one
 * of them has a lower step.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_WALK_H
#define WEFT_PLATFORM_METRICS_STORE_WALK_H

#include "platform/metrics/store/internal/series.h"

struct metric_walk {
    struct database *database;
    bool times;       /**< the axis */
    int64_t from, to; /**< of the axis, both included */
    double width;     /**< most of the axis that a summary may cover; 0: every point by itself */
    int64_t below;    /**< steps from here on are those of later attempts; INT64_MAX: of none */

    /** Get what is drawn, the last first: many points as one, or one by itself. */
    void (*take)(void *state, const struct metric_summary *summary);
    void (*take_point)(void *state, const struct metric_point *point);
    void *state;
};

/** A series: of the database, and, if it is in memory, of that. */
struct metric_part {
    int64_t number;                  /**< in the database */
    int64_t blocks;                  /**< whole ones that can be read there */
    const struct metric_point *tail; /**< after them */
    size_t count;
};

/** Walk; `*first` becomes the lowest step that the series has, drawn or not, if that is below it. */
weft_status metric_walk(const struct metric_walk *walk, const struct metric_part *part, int64_t *first,
                        struct error *error);

#endif
