/* SPDX-License-Identifier: Apache-2.0 */
/** What a metric is now, over all ranks that report it: the number beside its curve. Of the store's thread. */
#ifndef WEFT_PLATFORM_METRICS_STORE_LATEST_H
#define WEFT_PLATFORM_METRICS_STORE_LATEST_H

#include "platform/metrics/store/store.h"

#define METRIC_LATEST_SECONDS 60 /**< a rank that has said nothing for so long when another did is not waited for */

/** Of one point of each rank. With a NaN among them the mean is NaN; the lowest and the highest ignore it. */
struct metric_latest {
    int64_t step; /**< the last one that every rank has reached */
    int64_t time; /**< microseconds since 1970: when the last of these points came */
    double mean, lowest, highest;
    int64_t ranks; /**< that count */
};

/**
 * The newest attempt counts, and of its ranks those whose newest points came within METRIC_LATEST_SECONDS of the newest
 * of all. Of each the newest point is taken that is not beyond the step that all of them have reached: ranks report one
 * after the other, and the value must not be that of the last reporter alone. `*found`: there is one. Errors: DATA if
 * the run has no such metric, or its stored data is damaged; SYSTEM, MEMORY.
 */
weft_status metric_latest(struct metric_store *store, int64_t run, const char *name, struct metric_latest *latest,
                          bool *found, struct error *error);

#endif
