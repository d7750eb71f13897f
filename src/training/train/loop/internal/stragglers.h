/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Stragglers: ranks that are slower than their peers for long.
 *
 * A rank's *busy time* of a step is the time that it took without that in which it waited for other ranks, for each of
 * its micro-batches. After every config.straggler_steps steps each rank's median of them is compared with the (lower)
 * median of its peers: the ranks that compute the same layers. A rank is a straggler if its own is more than
 * config.straggler_factor times that. It is reported when it becomes one and when it no longer is. With
 * config.replace_stragglers the slowest one leaves the run, as if it were lost, as long as weft run has a restart left
 * for it and config.min_ranks are left.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_STRAGGLERS_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_STRAGGLERS_H

#include "base/error.h"

struct trainer;

struct straggler_watch {
    double *busy;   /**< seconds, of each step since the last comparison; config.straggler_steps fit */
    int64_t steps;  /**< of them */
    int *slow;      /**< the stragglers, by their numbers at the beginning of the job */
    int slow_count; /**< as many as ranks fit */
};

/**
 * After a step that took `seconds`: note it and, if it is time, compare. Collective over the ranks that train.
 *
 * Errors: STATE on a straggler that is to leave, and on it alone; MEMORY; the library's.
 */
weft_status stragglers_note_step(struct trainer *trainer, double seconds, struct error *error);

/** The ranks change: begin to count again. */
void stragglers_restart(struct straggler_watch *watch);

/** Allowed on a zeroed struct. */
void stragglers_close(struct straggler_watch *watch);

#endif
