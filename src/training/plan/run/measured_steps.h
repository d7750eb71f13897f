/* SPDX-License-Identifier: Apache-2.0 */
/** Measured steps of a run, to set against its plan. */
#ifndef WEFT_TRAINING_PLAN_RUN_MEASURED_STEPS_H
#define WEFT_TRAINING_PLAN_RUN_MEASURED_STEPS_H

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

#endif
