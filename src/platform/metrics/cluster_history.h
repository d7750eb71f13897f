/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How full the cluster was, over time: counted every few seconds, kept in the store of metrics under a number that is
 * no run's, and drawn from there in few points. Of the thread of its store.
 */
#ifndef WEFT_PLATFORM_METRICS_CLUSTER_HISTORY_H
#define WEFT_PLATFORM_METRICS_CLUSTER_HISTORY_H

#include "platform/metrics/store/store.h"
#include "platform/registry/registry.h"

#define CLUSTER_RUN (-1) /**< where a metric of the cluster, or of this machine, is kept */

/** The occupancy at one time, in slots. */
struct cluster_census {
    int64_t slots;   /**< of all hosts that are not lost; those of drained and cordoned ones that no run has are neither
                        taken nor idle */
    int64_t taken;   /**< that a node of a run has */
    int64_t waiting; /**< that waiting runs ask for */
    int64_t idle;    /**< free ones of hosts that are up */
    /** Of the largest run that could start at once, without moving another: the free slots of one host, or all hosts of
     * one Pod that are wholly free. */
    int64_t largest_hole;
};

/** Count. Errors: those of the registry; MEMORY. */
weft_status cluster_census(struct database *registry, struct cluster_census *census, struct error *error);

/** Store a census of the time `now` (milliseconds since 1970). Errors: as metric_store_append(). */
weft_status cluster_history_add(struct metric_store *store, const struct cluster_census *census, int64_t now,
                                struct error *error);

/** A part of the history; values are means. */
struct cluster_part {
    int64_t time; /**< its middle, milliseconds since 1970 */
    double slots, taken, waiting, idle, largest_hole;
};

struct cluster_history {
    struct cluster_part *parts;
    size_t count;
    double utilization;       /**< mean share of slots that are taken; NaN: nothing is known of that time */
    double idle_while_queued; /**< mean share of slots that were free on hosts that were up while anything waited */
};

/** Draw what is kept from `from` to `to` (milliseconds; both included) in `most` parts at most. */
weft_status cluster_history_draw(struct metric_store *store, int64_t from, int64_t to, size_t most,
                                 struct cluster_history *history, struct error *error);
void cluster_history_free(struct cluster_history *history);

#endif
