/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reservations of hosts for queued runs that need whole hosts. Other runs start on a reserved host only if they fit nowhere
 * else, and no run is moved there, so the host empties.
 *
 * Hosts are reserved in queue order, for as many runs as the free slots of all hosts together could serve (always for the
 * first). The hosts chosen are those that can be empty soonest, given that a run may leave its host at `least_age`.
 *
 * One run at a time, the first in the queue, may reserve its hosts exclusively. No other run starts there then, except one
 * whose time limit ends before the hosts can be empty. A run may do so once it has waited for `exclusive_wait`, or for
 * `patience` if runs that cannot be preempted are in its way. Its hosts are chosen again in each pass, by the same rule. All
 * smaller runs make room for it at `least_age`. After it, nobody reserves hosts exclusively until the others have had their
 * share of the slots' time.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_RESERVATION_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_RESERVATION_H

#include "platform/scheduler/internal/state.h"

/** Choose the hosts of the exclusive reservation again, at the start of a pass. */
void reservation_renew_exclusive(struct scheduler *scheduler, double now);

/** Reserve hosts again for all other runs, at the end of a pass. */
void reservation_renew(struct scheduler *scheduler, double now);

#endif
