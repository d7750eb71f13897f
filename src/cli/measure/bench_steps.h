/* SPDX-License-Identifier: Apache-2.0 */
/** Times of training steps on all ranks: how long they take, how long ranks wait, the bubble of their schedule. */
#ifndef WEFT_CLI_MEASURE_BENCH_STEPS_H
#define WEFT_CLI_MEASURE_BENCH_STEPS_H

#include "training/train/loop/trainer.h"
#include "training/train/report/report.h"

struct bench_steps;

/** Room for `count` steps after `warm` ones that are ignored. Errors: MEMORY. */
weft_status bench_steps_open(size_t warm, size_t count, struct bench_steps **steps, struct error *error);
void bench_steps_close(struct bench_steps *steps);

/** For train_config.observe. */
void bench_steps_note(void *steps, const struct report_step *step);

/** Medians over the steps; the same on all ranks. */
struct bench_steps_figures {
    double seconds;           /**< of the rank that takes longest */
    double wait_seconds;      /**< for messages and collectives; mean over ranks */
    double optimizer_seconds; /**< in norm and updates, without waiting; mean over ranks */
    double bubble; /**< share of the ranks' time, until the last one comes to the norm, that is not in passes */

    /** The same of the schedule, played with the mean times of the last step's passes and messages that take no time. */
    double predicted_wait_seconds, predicted_bubble;
};

/** Collective over the ranks that have trained. */
weft_status bench_steps_gather(struct bench_steps *steps, const struct trainer *trainer, weft_context *context,
                               struct bench_steps_figures *figures, struct error *error);

#endif
