/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Hosts that are held for runs that wait for whole hosts: while one is held, other runs go there only if they fit
 * nowhere else, and none is moved there, so that it empties.
 *
 * Hosts are held in the order of the queue, for as many runs as the free slots of all hosts together could serve (for
 * the first one always); of all hosts those that can be empty soonest: a run on them may leave at `least_age`.
 *
 * One run at a time, the first, may claim its hosts: no other goes there at all, but one whose limit lets it go on for
 * no longer than the hosts take to empty. It may where it has waited for `claim_wait`, or, for `patience`, where runs
 * are in its way that cannot be preempted. When its hosts are chosen anew, in each pass, they are again those that are
 * ready soonest. All runs that are smaller make room for it at `least_age`. After it, nobody claims hosts until
 * the others have had their share of the slots' time.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_HOLD_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_HOLD_H

#include "platform/scheduler/internal/state.h"

/** Choose the hosts of the run that claims some anew, at the begin of a pass. */
weft_status hold_claimed(struct scheduler *scheduler, double now, struct error *error);

/** Hold hosts anew for all others, at the end of a pass. */
weft_status hold_hosts(struct scheduler *scheduler, double now, struct error *error);

#endif
