/* SPDX-License-Identifier: Apache-2.0 */
/** A step as a timeline in a file: drawn, or for chrome://tracing and ui.perfetto.dev (Chrome's trace event format). */
#ifndef WEFT_TRAINING_SIMULATE_STEP_TRACE_H
#define WEFT_TRAINING_SIMULATE_STEP_TRACE_H

#include "training/simulate/step_simulate.h"

#include <stdio.h>

/**
 * Write a JSON object to `out`: a process for each host, and in it a thread for each rank. Passes of a micro-batch through
 * a stage are one event, with their collectives; so are the updates. Messages and collectives over the data axis overlap
 * them, and are asynchronous events. `result` is from a simulation with keep_times. Times are in microseconds.
 */
void step_trace_write(const struct step_costs *costs, const struct step_result *result, FILE *out);

/** Draw a timeline (step_draw()) to the file `path`, or standard output if it is "-". Errors: those of
 * named_output_write(); MEMORY. */
weft_status step_draw_file(const struct step_shape *shape, const struct step_schedule *schedules,
                           const struct step_times *times, const char *path, struct error *error);

/** Draw the pipeline that rank 0 is in to the file `path`, as step_draw_file() does. Of a simulation with keep_times.
 * Errors: those of step_draw_file(). */
weft_status step_result_draw(const struct step_costs *costs, const struct step_result *result, const char *path,
                             struct error *error);

#endif
