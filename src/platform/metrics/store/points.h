/* SPDX-License-Identifier: Apache-2.0 */
/** Points as they were reported, every one of them: to be exported, and the newest for a list. Of the store's thread.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_POINTS_H
#define WEFT_PLATFORM_METRICS_STORE_POINTS_H

#include "platform/metrics/store/store.h"

/** Gets a point; an error ends it. Must not change the store. */
typedef weft_status metric_points_take(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                                       struct error *error);

/** Where a reader of a metric's points is. A zeroed struct is the beginning. */
struct metric_place {
    bool begun;
    int64_t rank, attempt; /**< of the point that comes next, */
    uint64_t next;         /**< and its number in its series */
};

/**
 * Pass on points of a metric, of one rank and attempt or of all (METRIC_ANY), in the order of ranks, attempts, and their
 * arrival. About `most` points (rounded up to a block) from `place` on, which advances, so that others get their turn in
 * between; `*done` if that was the last one for now. Errors: DATA if the run has no such metric (the message names the
 * nearest name), or if the stored data is damaged; SYSTEM, MEMORY; those of `take`.
 */
weft_status metric_points_page(struct metric_store *store, int64_t run, const char *name, int64_t rank, int64_t attempt,
                               struct metric_place *place, size_t most, metric_points_take *take, void *state,
                               bool *done, struct error *error);

/** Pass on the newest point of every rank and attempt, in no particular order. Errors: as metric_points_page(). */
weft_status metric_points_newest(struct metric_store *store, int64_t run, const char *name, metric_points_take *take,
                                 void *state, struct error *error);

#endif
