/* SPDX-License-Identifier: Apache-2.0 */
/** A plan for the ranks of a job, made while it starts: `weft train --mesh auto`. */
#ifndef WEFT_TRAINING_PLAN_RUN_AUTO_PLAN_H
#define WEFT_TRAINING_PLAN_RUN_AUTO_PLAN_H

#include "training/plan/run/plan_file.h"

/**
 * Rank 0 measures the network's layers, searches the strategies for the ranks of `comm` where they are, and gives the best
 * one to all. Of `config`, everything but what strategies choose counts; the precision is the given one. `plan` is the same
 * on all ranks; plan_free() frees it.
 *
 * Collective. Errors: MEMORY if nothing fits; those of planner_search() and of a broadcast. *speaks as in
 * training/parallel/agreement.h.
 */
weft_status auto_plan_reach(const struct train_config *config, const struct model_description *description,
                            weft_context *context, weft_comm *comm, struct plan *plan, bool *speaks,
                            struct error *error);

#endif
