/* SPDX-License-Identifier: Apache-2.0 */
/** What the scheduler goes by, as numbers. Times in seconds, costs in slot-seconds. */
#ifndef WEFT_PLATFORM_SCHEDULER_POLICY_H
#define WEFT_PLATFORM_SCHEDULER_POLICY_H

struct scheduler_policy {
    double least_age;     /**< no run is preempted or moved before it has run so long since its last start */
    double preempt_often; /**< a run preempted so often is safe for twice as long after each further time */
    double restart_cost;  /**< what a run loses by being preempted or moved: it computes nothing for so long */
    double move_limit;    /**< runs are moved for another if that costs at most so many restarts of the other's size */
    double patience;      /**< a run waits so long before others are preempted for it */
    double preempt_ratio; /**< a run is preempted only for one whose priority is so many times better */
    double preempt_price; /**< what preempting a run is taken to cost, for each of its slots */
    double preempt_limit; /**< runs are preempted for another if that costs at most so much for each slot it asks for */
    double waiting_scale; /**< a queued run's priority is halved when it has waited so long, and falls on from there */
    double least_priority;    /**< priorities below are taken for this: differences of minutes do not matter */
    double wide_share;        /**< share of all slots that serves runs of several hosts by how long they have waited */
    double wide_patience;     /**< after so long in the queue such a run may have of that share */
    double longest_wide_wait; /**< after so long in the queue, in all, such a run goes before all others */
    double longest_wait;      /**< and so does any other after so long */
    double exclusive_wait;    /**< after so long in the queue hosts are kept for such a run from all others */
    double exclusive_share; /**< but runs that came to their hosts so have no more than this share of all slots' time */
    double drain_share;     /**< the same, where they had to wait for runs that cannot be preempted, after `patience` */
    double learning_period; /**< estimates are renewed so often */
    double fairness;   /**< the priority of a queued run grows by this power of what its project has of its share */
    double kept_share; /**< share of all slots that is kept for personal runs (scheduler.h); 0: none */
};

/** The values that docs/scheduling.md explains and measures. */
#define SCHEDULER_POLICY_DEFAULT                                                                                       \
    {                                                                                                                  \
        .least_age = 3600, .preempt_often = 4, .restart_cost = 300, .move_limit = 2, .patience = 600,                  \
        .preempt_ratio = 128, .preempt_price = 2100, .preempt_limit = 10000, .waiting_scale = 3600,                    \
        .least_priority = 600, .wide_share = 0.5, .wide_patience = 3600, .longest_wide_wait = 43200,                   \
        .longest_wait = 345600, .exclusive_wait = 86400, .exclusive_share = 0.1, .drain_share = 0.5,                   \
        .learning_period = 1800, .fairness = 0.5, .kept_share = 0                                                      \
    }

#endif
