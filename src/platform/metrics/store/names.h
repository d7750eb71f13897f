/* SPDX-License-Identifier: Apache-2.0 */
/** Which metrics a run has. Of the store's thread. */
#ifndef WEFT_PLATFORM_METRICS_STORE_NAMES_H
#define WEFT_PLATFORM_METRICS_STORE_NAMES_H

#include "platform/metrics/store/store.h"

/** What a run has: a graph of the page each. */
struct metric_name {
    char name[METRIC_NAME_MOST + 1];
    size_t group;            /**< bytes of its group: 5 of "train/loss", up to the last slash; 0: it has none */
    int64_t ranks, attempts; /**< how many have reported it */
};

/** The names of a run's metrics, in the order of the alphabet; free() `*names`. */
weft_status metric_names(struct metric_store *store, int64_t run, struct metric_name **names, size_t *count,
                         struct error *error);

/** The ranks that have reported a metric, rising; free() `*ranks`. */
weft_status metric_ranks(struct metric_store *store, int64_t run, const char *name, int64_t **ranks, size_t *count,
                         struct error *error);

#endif
