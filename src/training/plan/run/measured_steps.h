/* SPDX-License-Identifier: Apache-2.0 */
/** Measured steps of a run, to set against its plan. */
#ifndef WEFT_TRAINING_PLAN_RUN_MEASURED_STEPS_H
#define WEFT_TRAINING_PLAN_RUN_MEASURED_STEPS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/** Medians over the steps of a run but the first tenth, on rank 0, in seconds. */
struct measured_steps {
    uint32_t steps; /**< that count */
    double seconds;
    double wait_seconds; /**< of these, waiting for other ranks and for links */
    double data_seconds; /**< of these, reading data */

    bool has_terms;             /**< the metrics have the rest: those of an older weft train do not */
    double tensor_wait_seconds; /**< of wait_seconds, for collectives within layers */
    double data_wait_seconds;   /**< of wait_seconds, for collectives over the data axis */
    double compute_seconds;     /**< in passes of layers, without waiting */
    double optimizer_seconds;   /**< in the norm and updates, without waiting */
};

/**
 * From the JSON lines of weft train --metrics: a file, or a directory with one (report_find_metrics()).
 * Errors: ARGUMENT if the directory has none; SYSTEM; DATA if a line is not JSON, or no step is among them.
 */
weft_status measured_steps_load(const char *word, struct measured_steps *measured, struct error *error);

#endif
