/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A step in virtual time: the schedules of all pipeline ranks, executed with given durations.
 *
 * Messages have no buffers of their own: a send ends only when its receive has begun and the message has moved. So
 * schedules that end here end with any transport. Ranks of the other axes run the same schedules in step with these:
 * their collectives end a given time after they begin on this rank. What the step before has left is complete.
 */
#ifndef WEFT_TRAINING_PARALLEL_STEP_PLAY_H
#define WEFT_TRAINING_PARALLEL_STEP_PLAY_H

#include "training/parallel/step/step.h"

/** Seconds that an operation takes once it has begun. */
typedef double (*step_duration)(void *context, const struct step_operation *operation);

struct step_times {
    double **begin, **end; /**< of each pipeline rank's operations, in seconds from the beginning of the step */
    double seconds;        /**< until the last rank has finished */
};

/**
 * Execute schedules[0 .. shape->pipeline). step_times_free() frees `times`.
 *
 * Errors: WEFT_ERROR_SCHEDULE, with a message that names ranks and operations, if they wait for each other for ever,
 * or a message meets a receive for something else; MEMORY.
 */
weft_status step_play(const struct step_shape *shape, const struct step_schedule *schedules, step_duration duration,
                      void *context, struct step_times *times, struct error *error);
void step_times_free(const struct step_shape *shape, struct step_times *times);

/** Share of the time of all ranks up to the norm in which none of their computes: the bubble, with what else keeps
 * them waiting. */
double step_bubble(const struct step_shape *shape, const struct step_schedule *schedules,
                   const struct step_times *times);

#endif
