/* SPDX-License-Identifier: Apache-2.0 */
/** Points as they were reported, every one of them: to be exported, and the newest for a list. Of the store's thread.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_POINTS_H
#define WEFT_PLATFORM_METRICS_STORE_POINTS_H

#include "platform/metrics/store/store.h"

/** Gets a point; an error ends it. Must not change the store. */
typedef weft_status metric_points_take(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                                       struct error *error);

/**
 * Pass on all points of a metric, of one rank and attempt or of all (METRIC_ANY): ranks rise, within a rank attempts,
 * within an attempt it is the order in which the points came. Errors: DATA if the run has no such metric (the nearest
 * name is told), or what is kept of it is damaged; SYSTEM, MEMORY; those of `take`.
 */
weft_status metric_points_each(struct metric_store *store, int64_t run, const char *name, int64_t rank, int64_t attempt,
                               metric_points_take *take, void *state, struct error *error);

/** Where a reader of a metric's points is. A zeroed struct is the beginning. */
struct metric_place {
    bool begun;
    int64_t rank, attempt; /**< of the point that comes next, */
    uint64_t next;         /**< and its number in its series */
};

/**
 * The same, `most` points at most (rounded up to a block), from `place` on, which moves: so that others get their turn
 * in between. `*done`: that was the last one for now.
 */
weft_status metric_points_page(struct metric_store *store, int64_t run, const char *name, int64_t rank, int64_t attempt,
                               struct metric_place *place, size_t most, metric_points_take *take, void *state,
                               bool *done, struct error *error);

/** The point that came last in the newest attempt of the rank (METRIC_ANY: of the lowest rank); `*found`: there is one.
 */
weft_status metric_points_last(struct metric_store *store, int64_t run, const char *name, int64_t rank,
                               struct metric_point *point, bool *found, struct error *error);

/** Pass on the point that came last of every rank and attempt, in no certain order. Errors: as metric_points_each(). */
weft_status metric_points_newest(struct metric_store *store, int64_t run, const char *name, metric_points_take *take,
                                 void *state, struct error *error);

#endif
