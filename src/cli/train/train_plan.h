/* SPDX-License-Identifier: Apache-2.0 */
/** `weft train --plan FILE` and `weft train --mesh auto`: a run by a plan. */
#ifndef WEFT_CLI_TRAIN_TRAIN_PLAN_H
#define WEFT_CLI_TRAIN_TRAIN_PLAN_H

#include "training/plan/run/plan_file.h"

struct train_plan {
    const char *path; /**< of --plan; NULL: none */
    bool automatic;   /**< --mesh auto */
    bool force;
    struct plan plan;
    struct strategy_words words;
    char differences[2 * PLAN_DIFFERENCES_BYTES]; /**< of the command line */
};

/**
 * Before the job is joined: read the plan and have `config` follow it, but for options that `arguments` (NULL-terminated)
 * gives. train_plan_free() frees it. Errors: those of plan_load(); ARGUMENT for options beside --mesh auto that it chooses.
 */
weft_status train_plan_begin(struct train_plan *plan, char *const *arguments, struct train_config *config,
                             struct error *error);

/**
 * When the ranks are known: compare the plan with a run on `first_ranks` ranks, or make one for the ranks that there are.
 * With --force, differences are printed to `warnings`. Collective. May be called again, with another `config`, when ranks
 * are lost before the run has begun. Errors: ARGUMENT with all differences; those of auto_plan_reach().
 */
weft_status train_plan_settle(struct train_plan *plan, weft_context *context, uint32_t first_ranks,
                              struct train_config *config, FILE *warnings, FILE *output, bool *speaks,
                              struct error *error);

void train_plan_free(struct train_plan *plan);

#endif
