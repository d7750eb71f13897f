/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The order of the queue, and who gives way to whom: ranks, in slot-seconds; less is better.
 *
 * A run's rank is what an ending of a run like it is expected to cost from here on (history.h) times its slots, over
 * its weight; while it waits the rank falls. Runs of several hosts are served by waiting too: as long as those that
 * were so served hold less than `wide_share` of the slots, those that have waited longest go first, and after
 * `longest_wait` any. Personal runs go first as far as what is kept for them goes.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_RANK_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_RANK_H

#include "platform/scheduler/internal/state.h"

/** Renew the estimates if that is due, rank all runs, and sort the queue into scheduler->order. */
weft_status rank_all(struct scheduler *scheduler, double now, struct error *error);

/** Sort the queue again after runs were preempted, by the ranks that they have. */
weft_status rank_sort(struct scheduler *scheduler, struct error *error);

/** Rank one run: when it changes between queued and running. */
void rank_one(const struct scheduler *scheduler, struct scheduled_run *run, double now);

#endif
