/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Hosts that are held for runs that wait for whole hosts: while one is held, other runs go there only if they fit
 * nowhere else, and none is moved there, so that it empties.
 *
 * Hosts are held in the order of the queue, for as many runs as the free slots of all hosts together could serve (for
 * the first one always); of all hosts those that can be empty soonest: a run on them may leave at `least_age`.
 */
#ifndef WEFT_SCHEDULER_HOLD_H
#define WEFT_SCHEDULER_HOLD_H

#include "scheduler/state.h"

/** Hold hosts anew, at the end of a pass. */
weft_status hold_hosts(struct scheduler *scheduler, double now, struct error *error);

#endif
