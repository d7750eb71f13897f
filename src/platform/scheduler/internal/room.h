/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Making room for a run that fits nowhere: which runs move elsewhere, and which give way, so that it fits.
 *
 * A run that takes one host may move, to a host where it fits and that is reserved for nobody; any run gives way if its
 * priority is worse than the waiting one's by `preempt_ratio`; both when they have run for long enough (state.h). Of all
 * ways to free the hosts the cheapest is taken: a move costs `restart_cost` for each slot moved, a preemption
 * `preempt_price`.
 *
 * For a personal run that may have of what is kept, priorities do not count; if that does not suffice, neither do ages.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_ROOM_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_ROOM_H

#include "platform/scheduler/internal/state.h"

/** A run that leaves its hosts, and the host it moves to, or POOL_NOBODY if it is preempted. */
struct departure {
    uint32_t run, to;
};

/** A way to make room. Its arrays belong to the room_search that found it. */
struct room_plan {
    double cost; /**< slot-seconds */
    uint32_t *hosts;
    struct departure *departures;
    uint32_t departure_count;
};

/** By what means, each with those before it. */
enum room_means {
    ROOM_MOVES,        /**< runs move */
    ROOM_DISPLACEMENT, /**< runs that are worse off by far give way */
    ROOM_KEPT,         /**< any that have run for long enough give way */
    ROOM_KEPT_AT_ONCE, /**< any that have checkpoints do */
};

/** What a search needs, made once for a pass. */
struct room_search;

struct room_search *room_search_new(struct scheduler *scheduler, struct error *error);
void room_search_free(struct room_search *search);

/**
 * The cheapest way to make room for `run` by these means at a cost below `limit`. False if there is none. The plan is
 * valid until the next search; nothing has been changed.
 */
bool room_find(struct room_search *search, uint32_t run, enum room_means means, double limit, double now,
               struct room_plan *plan);

#endif
