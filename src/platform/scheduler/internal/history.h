/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How long runs will take, from how long others took: blind to what a run's own end will be.
 *
 * For each member of a project and size, for each project and size, each size, and for all together, the hazard of
 * ending (ends per second of running) is kept over the age of runs in bins that grow geometrically; runs that still run
 * count for what they have run (Kaplan and Meier 1958, "Nonparametric estimation from incomplete observations"). Where
 * a member has few runs of a size their hazard leans on that of the project, that on the size's in all projects, and
 * that on all runs', by adding `HISTORY_PRIOR` runs' worth of the wider one.
 *
 * From the hazards come two numbers for a run that has run for so long:
 *  - its *rank*: the least expected seconds of running per ending, over all times that one might go on with it. Serving
 *    the least rank first makes the mean time to the end the least, for one server and unknown lengths (J. Gittins
 *    1979, "Bandit processes and dynamic allocation indices"; for lengths: S. Aalto et al. 2009, "On the Gittins index
 *    in the M/G/1 queue").
 *  - its *remaining time*, expected.
 *
 * Not thread-safe; a history belongs to one scheduler.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_HISTORY_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_HISTORY_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define HISTORY_PRIOR 5.0 /**< the wider history counts as so many runs */

/** Runs that are taken to be alike. */
struct history_kind {
    uint32_t project; /**< a small number */
    uint32_t member;  /**< whose they are: a small number, from 1, that means the same person in the same project
                         wherever  it stands; 0: nobody's in particular */
    uint32_t slots;
};

struct history;

struct history *history_new(struct error *error);
void history_free(struct history *history);

/** A run came to its end after it had run `seconds` (all attempts together). */
weft_status history_add(struct history *history, struct history_kind kind, double seconds, struct error *error);

/**
 * Renew the estimates. Between history_renew_begin() and history_renew_end(), tell the age of each run that has begun
 * and not ended, with history_renew_running().
 */
void history_renew_begin(struct history *history);
weft_status history_renew_running(struct history *history, struct history_kind kind, double seconds,
                                  struct error *error);
void history_renew_end(struct history *history);

/** Of a run that has run `seconds`. Seconds, above 0. */
double history_cost(struct history *history, struct history_kind kind, double seconds);
double history_remaining(struct history *history, struct history_kind kind, double seconds);

#endif
