/* SPDX-License-Identifier: Apache-2.0 */
/** What `weft plan` prints. */
#ifndef WEFT_CLI_UNDERSTAND_PLAN_PRINT_H
#define WEFT_CLI_UNDERSTAND_PLAN_PRINT_H

#include "training/plan/explain.h"
#include "training/plan/run/steps_curve.h"

/** A global batch of a curve of steps, and the best plan's time. */
struct plan_batch {
    struct curve_point point;
    double seconds; /**< of a step; 0: nothing fits */
};

/** A search and what explains its result. */
struct plan_answer {
    const struct planner_setting *setting;
    const struct strategy_space *space;
    const struct search_result *result;
    const char *model;
    const struct plan_batch *batches; /**< that were planned, where a curve is given */
    size_t batch_count, best_batch;
    const uint32_t *shares; /**< micro-batches of each data rank of the best plan; NULL: they differ by at most one */
    uint64_t needed, available; /**< memory of the best plan's fullest device or host */
    struct sensitivity sensitivities[SENSITIVITIES_MOST];
    size_t sensitivity_count;
    size_t show;    /**< plans that are compared with the best */
    double seconds; /**< that planning took */
};

void plan_print(const struct plan_answer *answer, FILE *output);

/** Errors: those of json_complete(). */
weft_status plan_print_json(const struct plan_answer *answer, FILE *output, struct error *error);

#endif
