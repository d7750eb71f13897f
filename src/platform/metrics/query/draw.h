/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Curves of what a metric_store holds: any of them in a given number of points, with the lowest and the highest kept.
 *
 * A curve is cut into equal parts of the axis, and each part that has points becomes their summary: two points of the
 * picture (the lowest and the highest), a mean, and how many were not finite. Where there are few points, each is drawn
 * by itself. How long that takes depends on the parts, not on the points: about a summary of a level is read for each.
 *
 * Steps that were taken again: of an attempt's points those are drawn whose step is below every step of later attempts,
 * so that a run that went back to a checkpoint has one curve, the newest. An attempt that goes back itself (a program
 * that loads its own checkpoint) is seen alike: a point that is followed by one of a lower step is not drawn. All of
 * them stay, and each attempt can be drawn by itself.
 *
 * Reads what is in memory too, so nothing has to be flushed. Of the store's thread.
 */
#ifndef WEFT_PLATFORM_METRICS_QUERY_DRAW_H
#define WEFT_PLATFORM_METRICS_QUERY_DRAW_H

#include "platform/metrics/store/store.h"

#define METRIC_DRAW_MOST 2000 /**< points, if the query does not say */

enum metric_axis {
    METRIC_STEPS,
    METRIC_TIMES, /**< microseconds since 1970 */
};

struct metric_query {
    int64_t run;
    const char *name;
    int64_t rank;    /**< METRIC_ANY: all ranks in one curve */
    int64_t attempt; /**< METRIC_ANY: the newest of each step */
    enum metric_axis axis;
    int64_t from, to; /**< of the axis, both included; INT64_MIN and INT64_MAX: all of it */
    size_t most;      /**< points; 0: METRIC_DRAW_MOST */
    /** Over times: ranks report at different times, and are drawn as one curve nevertheless. A part is at least as wide
     * as the usual time between two points of a rank; see metric_curve.spreads. */
    bool together;
};

/** What is drawn of a part; all NaN: nothing. */
struct metric_spread {
    double mean, lowest, highest;
};

struct metric_curve {
    /** Along the axis, rising. `lowest` and `highest` are points that were reported; `rising` says nothing here. */
    struct metric_summary *parts;
    size_t count;
    uint64_t points;      /**< that the parts stand for */
    uint64_t nan;         /**< of these, not a number */
    uint64_t infinite[2]; /**< minus, plus */
    /** With `together`, of each part: the mean of the ranks' means, each of which counts once, and their lowest and
     * highest. A rank that has no point in a part counts as in one shortly before. NULL: as the parts have it. */
    struct metric_spread *spreads;
    bool whole; /**< each part is all that was reported at one step (or time) */
};

/**
 * Draw. A part counts as one point if a single point was reported there, else as two. Errors: DATA if the run has no
 * such metric (the message suggests the nearest name), or its stored data is damaged; SYSTEM, MEMORY.
 */
weft_status metric_draw(struct metric_store *store, const struct metric_query *query, struct metric_curve *curve,
                        struct error *error);
void metric_curve_free(struct metric_curve *curve);

/** What is drawn of part `i`. */
struct metric_spread metric_curve_spread(const struct metric_curve *curve, size_t i);

/** The mean of the finite points of a part; NaN if there are none. */
double metric_summary_mean(const struct metric_summary *summary);

#endif
