/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Goodput: the share of a run's time in which it took steps that count. The rest is lost: steps that were taken again after
 * the run had gone back, recoveries, and what is between (failed steps until the failure was found, evaluations, pauses for
 * checkpoints).
 *
 * Checkpoints cost more than the pauses: threads that write them take processor time and memory bandwidth from the steps
 * beside them. What such steps take longer than the recent ones without counts as a pause too.
 *
 * Each rank that trains keeps its own account, which a new rank 0 continues. The account of a rank that has
 * joined, or was a spare, lacks the time before.
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_GOODPUT_H
#define WEFT_TRAINING_TRAIN_REPORT_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

/** Begins zeroed. */
struct goodput {
    uint64_t began;          /**< clock_now(): before the first step; 0: there was none */
    uint64_t newest;         /**< the last step that was taken for the first time */
    uint32_t recoveries;     /**< changes of the ranks */
    double useful, repeated; /**< seconds of steps taken for the first time, and again */
    double recovering;       /**< seconds until the ranks went on after a change */

    uint32_t checkpoints;   /**< that were written */
    double waited, between; /**< seconds that training waited for them; of these, between steps */
    double slowed; /**< seconds that steps took longer while checkpoints and copies were written, waits included */
    double recent, recents; /**< decaying sums of the seconds of other steps, and of their number */
    bool rebuilt;           /**< the ranks have changed since the last step */
};

/** Step `step` has been taken, in so many seconds; `beside`: while a checkpoint or a copy of one was written. */
void goodput_note_step(struct goodput *goodput, uint64_t step, double seconds, bool beside);

/** A checkpoint has been written, for which training waited so many seconds, `between` of them not within a step. */
void goodput_note_checkpoint(struct goodput *goodput, double waited, double between);

void goodput_note_recovery(struct goodput *goodput, double seconds);

/** Seconds since the first step began; 0: there was none. */
double goodput_seconds(const struct goodput *goodput);

/** Seconds that checkpoints have cost: waits between steps, and what steps beside them took longer. */
double goodput_checkpoint_seconds(const struct goodput *goodput);

/** From 0 to 1; 0 without a step. */
double goodput_share(const struct goodput *goodput);

#define GOODPUT_TEXT_BYTES 256

/** "goodput 93.1 %: steps took 20.2 of 21.7 s; lost: 3 recoveries 0.9 s, repeated steps 0.1 s, the rest 0.5 s". Returns
 * `text`. */
const char *goodput_describe(const struct goodput *goodput, char text[GOODPUT_TEXT_BYTES]);

/** "checkpoints took 0.9 % of the time: training waited 0.21 s for 3, and steps beside them took 0.52 s longer". The latter
 * includes waits within steps. Returns `text`. */
const char *goodput_describe_checkpoints(const struct goodput *goodput, char text[GOODPUT_TEXT_BYTES]);

#endif
