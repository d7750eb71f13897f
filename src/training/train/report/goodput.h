/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Goodput: the share of a run's time in which it took steps that count. The rest is lost: steps that were taken again after
 * the run had gone back, recoveries, and what is between (failed steps until the failure was found, evaluations, pauses for
 * checkpoints). Each rank that trains keeps its own account, which a new rank 0 continues. The account of a rank that has
 * joined, or was a spare, lacks the time before.
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_GOODPUT_H
#define WEFT_TRAINING_TRAIN_REPORT_GOODPUT_H

#include <stdint.h>

/** Begins zeroed. */
struct goodput {
    uint64_t began;          /**< clock_now(): before the first step; 0: there was none */
    uint64_t newest;         /**< the last step that was taken for the first time */
    uint32_t recoveries;     /**< changes of the ranks */
    double useful, repeated; /**< seconds of steps taken for the first time, and again */
    double recovering;       /**< seconds until the ranks went on after a change */
};

/** Step `step` has been taken, in so many seconds. */
void goodput_note_step(struct goodput *goodput, uint64_t step, double seconds);

void goodput_note_recovery(struct goodput *goodput, double seconds);

/** Seconds since the first step began; 0: there was none. */
double goodput_seconds(const struct goodput *goodput);

/** From 0 to 1; 0 without a step. */
double goodput_share(const struct goodput *goodput);

#define GOODPUT_TEXT_BYTES 256

/** "goodput 93.1 %: steps took 20.2 of 21.7 s; lost: 3 recoveries 0.9 s, repeated steps 0.1 s, the rest 0.5 s". Returns
 * `text`. */
const char *goodput_describe(const struct goodput *goodput, char text[GOODPUT_TEXT_BYTES]);

#endif
