/* SPDX-License-Identifier: Apache-2.0 */
/** A step's schedule for people: as text, and as a timeline in SVG. */
#ifndef WEFT_TRAINING_PARALLEL_STEP_SHOW_H
#define WEFT_TRAINING_PARALLEL_STEP_SHOW_H

#include "base/buffer.h"
#include "training/parallel/step/play.h"

/** "12 forward stage 1 unit 3 micro-batch 0 slot 0 input 0 after 11", without a newline. */
void step_print_operation(const struct step_schedule *schedule, size_t number, struct buffer *text);

/** A line that says what the rank needs, then a line for each operation. */
void step_print(const struct step_schedule *schedule, struct buffer *text);

/**
 * A timeline of all pipeline ranks in SVG: a row for each, with its forward passes, both backward passes and the
 * optimizer in colors of their own, numbered by micro-batch. `times` are step_play()'s for the same schedules.
 */
void step_draw(const struct step_shape *shape, const struct step_schedule *schedules, const struct step_times *times,
               struct buffer *svg);

#endif
