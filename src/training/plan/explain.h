/* SPDX-License-Identifier: Apache-2.0 */
/** Why a plan is the best one: what would make it faster, what comes next, and what to do where nothing fits. */
#ifndef WEFT_TRAINING_PLAN_EXPLAIN_H
#define WEFT_TRAINING_PLAN_EXPLAIN_H

#include "training/plan/planner/planner.h"

#define SENSITIVITIES_MOST 5

/** The same strategy on a cluster with one difference. */
struct sensitivity {
    const char *what; /**< "2x bandwidth between hosts"; a static string */
    double seconds;   /**< of a step there */
};

/** Price `strategy` with one thing changed at a time, those that a cluster like this has. Errors: those of
 * planner_price(). */
weft_status explain_sensitivities(const struct planner_setting *setting, const struct strategy *strategy,
                                  struct sensitivity list[SENSITIVITIES_MOST], size_t *count, struct error *error);

#define EXPLAIN_TEXT_BYTES 512

/** "computing: 71 % of the step", with the memory where faster strategies do not fit; returns `text`. */
const char *explain_constraint(const struct search_result *result, char text[EXPLAIN_TEXT_BYTES]);

/** The next plan after number `from` that is not only another placement or bucket size of one before it; result->count:
 * there is none. */
size_t explain_next(const struct search_result *result, size_t from);

/**
 * Where nothing fits: write by how much, and the first of these changes with which something does: bf16, more hosts, a
 * shorter sequence. What cannot be tried is taken not to help. `cluster` and `device` are those that setting->cluster was
 * opened with.
 */
void explain_nothing_fits(const struct planner_setting *setting, const struct cluster *cluster,
                          const struct cluster_device *device, const struct search_result *result,
                          char text[EXPLAIN_TEXT_BYTES]);

#endif
