/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A training step before it runs: the stages that a network is cut into, the schedules of all pipeline ranks as
 * executor_open() writes them, and their virtual time. For `weft plan show`.
 *
 * A plan does not change after it is opened and may be read by several threads.
 */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_STEP_PLAN_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_STEP_PLAN_H

#include "training/parallel/execute/executor.h"
#include "training/parallel/step/play.h"

/** Operations per second that a rank is assumed to reach where costs are not measured: only ratios of times count then. */
#define STEP_PLAN_RATE 1e10

struct step_plan {
    struct step_shape shape; /**< its first_unit is the plan's */
    uint32_t *first_unit;
    double *costs;                   /**< of each unit: seconds of its three passes for a micro-batch */
    struct step_schedule *schedules; /**< of each pipeline rank, proved */
    struct step_times times;         /**< messages and collectives take no time */
    double bubble;                   /**< step_bubble() */
};

/**
 * Plan the steps of an executor. Of `config`, context, communicator, devices and placement are not used, and nothing is
 * kept. With config->costs NULL, costs come from numbers of operations and STEP_PLAN_RATE;
 * on a tensor axis the description is that of one of its ranks. A third of a unit's cost is
 * its forward pass. step_plan_close() frees the plan, also after an error.
 *
 * Errors: ARGUMENT as for executor_open(); MEMORY.
 */
weft_status step_plan_open(const struct executor_config *config, struct step_plan *plan, struct error *error);
void step_plan_close(struct step_plan *plan);

/** The pipeline rank of a stage, and the stage's share of the cost of all stages. */
uint32_t step_plan_rank_of(const struct step_plan *plan, uint32_t stage);
double step_plan_share_of(const struct step_plan *plan, uint32_t stage);

#endif
