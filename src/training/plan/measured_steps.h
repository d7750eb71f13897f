/* SPDX-License-Identifier: Apache-2.0 */
/** Measured steps of a run, to set against its plan; and measured curves of steps to a target loss. */
#ifndef WEFT_TRAINING_PLAN_MEASURED_STEPS_H
#define WEFT_TRAINING_PLAN_MEASURED_STEPS_H

#include "base/error.h"

#include <stdint.h>

/** Medians over the steps of a run but the first tenth, in seconds. */
struct measured_steps {
    uint32_t steps; /**< that count */
    double seconds;
    double wait_seconds; /**< of these, rank 0 waited for other ranks and for links */
    double data_seconds; /**< of these, it read data */
};

/** From the JSON lines of weft train --metrics. Errors: SYSTEM; DATA if a line is not JSON, or no step is among them. */
weft_status measured_steps_load(const char *path, struct measured_steps *measured, struct error *error);

/** A run of `batch` sequences a step reaches the target loss in `steps` steps. */
struct curve_point {
    uint32_t batch;
    double steps;
};

/** From lines of "batch,steps"; the first may be a heading; *points is the caller's to free(). Errors: SYSTEM;
 * DATA, with the line, for other lines, or if there are none. */
weft_status steps_curve_load(const char *path, struct curve_point **points, size_t *count, struct error *error);

#endif
