/* SPDX-License-Identifier: Apache-2.0 */
/** Measured curves: the steps that a run with a global batch takes to a target loss. */
#ifndef WEFT_TRAINING_PLAN_RUN_STEPS_CURVE_H
#define WEFT_TRAINING_PLAN_RUN_STEPS_CURVE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/** A run of `batch` sequences a step reaches the target loss in `steps` steps. */
struct curve_point {
    uint32_t batch;
    double steps;
};

/** From lines of "batch,steps"; the first may be a heading; *points is the caller's to free(). Errors: SYSTEM;
 * DATA, with the line, for other lines, or if there are none. */
weft_status steps_curve_load(const char *path, struct curve_point **points, size_t *count, struct error *error);

#endif
