/* SPDX-License-Identifier: Apache-2.0 */
/** Cuts a network into the stages of a pipeline. */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_INTERNAL_STAGES_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_INTERNAL_STAGES_H

#include "base/error.h"

#include <stdint.h>

/**
 * Cut `units` with the given costs into `stages` runs, none of them empty, so that the largest sum is as small as
 * possible: the slowest stage sets the pace. first_unit[0 .. stages] receives the first unit of each stage and, at the
 * end, the number of units. Takes units^2 x stages steps.
 *
 * Errors: ARGUMENT if there are fewer units than stages; MEMORY.
 */
weft_status stages_balance(const double *costs, uint32_t units, uint32_t stages, uint32_t *first_unit,
                           struct error *error);

#endif
