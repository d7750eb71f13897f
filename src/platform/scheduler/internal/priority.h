/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The order of the queue, and which run is preempted for which. A priority is a cost in slot-seconds: the lowest goes first.
 *
 * The priority of a run is the expected cost of finishing a run like it from here on (history.h), times its slots, over its
 * weight. It falls while the run waits. Runs on several hosts are also served by waiting time: while those started so have
 * less than `wide_share` of the slots, the one that has waited longest goes first; after `longest_wait`, so does any run.
 * Personal runs go first within the share that is kept for them.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_PRIORITY_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_PRIORITY_H

#include "platform/scheduler/internal/state.h"

/** Renew the estimates if that is due, set the priority of all runs, and sort the queue into scheduler->order. */
weft_status priority_update_all(struct scheduler *scheduler, double now, struct error *error);

/** Sort the queue again after runs were preempted, by the priorities that they have. */
void priority_sort(struct scheduler *scheduler);

/** Compare two struct scheduler_key, for qsort(). */
int priority_compare_keys(const void *a, const void *b);

/** Set the priority of one run: when it changes between queued and running. */
void priority_update(const struct scheduler *scheduler, struct scheduled_run *run, double now);

#endif
