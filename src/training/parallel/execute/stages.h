/* SPDX-License-Identifier: Apache-2.0 */
/** Cuts a network into the stages of a pipeline. */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_STAGES_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_STAGES_H

#include "training/parallel/execute/executor.h"

/**
 * Cut `units` with the given costs into `stages` runs, none of them empty, so that the largest sum is as small as
 * possible: the slowest stage sets the pace. first_unit[0 .. stages] receives the first unit of each stage and, at the
 * end, the number of units. Takes units x stages steps.
 *
 * Errors: ARGUMENT if there are fewer units than stages; MEMORY.
 */
weft_status stages_balance(const double *costs, uint32_t units, uint32_t stages, uint32_t *first_unit,
                           struct error *error);

/**
 * Cut the network of an executor into stages, those of its configuration if it has them: costs[0 .. layer_count) receives
 * the measured costs of its layers, or estimates, and first_unit as above. `costs` may be NULL where the configuration
 * has stages. Errors: as above; ARGUMENT if the configuration's stages are not of all layers.
 */
weft_status stages_cut(const struct executor_config *config, uint32_t stages, double *costs, uint32_t *first_unit,
                       struct error *error);

/** What a step of such an executor has to do; `first_unit` is borrowed. */
struct step_shape stages_shape(const struct executor_config *config, uint32_t stages, const uint32_t *first_unit);

#endif
