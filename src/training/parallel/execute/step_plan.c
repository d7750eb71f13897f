/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/execute/step_plan.h"

#include "training/parallel/execute/internal/executor_parts.h"
#include "training/parallel/execute/stages.h"
#include "training/parallel/step/verify.h"

#include <stdlib.h>

/* Reading a weight, its gradient and two moments, and writing three of them, takes as long as this many operations. */
#define UPDATE_OPERATIONS 20

/* What durations follow from. */
struct plan_durations {
    const struct step_plan *plan;
    double *updates; /* seconds of each unit's update */
};

static double plan_duration(void *context, const struct step_operation *operation)
{
    const struct plan_durations *durations = context;
    if (step_operation_computes(operation->kind))
        return durations->plan->costs[operation->unit] / 3;
    return operation->kind == OPERATION_UPDATE ? durations->updates[operation->unit] : 0;
}

/* Estimates become seconds; measured costs say how many operations a second the rank reaches. */
static double settle_costs(const struct executor_config *config, double *costs)
{
    const size_t units = config->description->layer_count, tokens = config->model.batch * config->model.sequence;
    double operations = 0, seconds = 0;
    for (size_t u = 0; u < units; u++) {
        struct model_layer layer;
        model_get_layer(config->description, u, WEFT_F32, WEFT_F32, &config->model, &layer);
        operations += 3 * layer.flops * (double)tokens;
        if (!config->costs)
            costs[u] *= 3 * (double)tokens / STEP_PLAN_RATE;
        seconds += costs[u];
    }
    return config->costs && seconds > 0 ? operations / seconds : STEP_PLAN_RATE;
}

static weft_status time_plan(const struct executor_config *config, struct step_plan *plan, struct error *error)
{
    const size_t units = config->description->layer_count;
    const double rate = settle_costs(config, plan->costs), ranks = plan->shape.zero ? plan->shape.data : 1;
    struct plan_durations durations = {.plan = plan, .updates = calloc(units, sizeof *durations.updates)};
    if (!durations.updates)
        return error_memory(error, units * sizeof *durations.updates, "the times of a step");
    for (size_t u = 0; u < units; u++) {
        struct model_layer layer;
        model_get_layer(config->description, u, WEFT_F32, WEFT_F32, &config->model, &layer);
        durations.updates[u] = UPDATE_OPERATIONS * (double)layer.weights / ranks / rate;
    }
    weft_status status = step_play(&plan->shape, plan->schedules, plan_duration, &durations, &plan->times, error);
    free(durations.updates);
    if (status == WEFT_OK)
        plan->bubble = step_bubble(&plan->shape, plan->schedules, &plan->times);
    return status;
}

weft_status step_plan_open(const struct executor_config *config, struct step_plan *plan, struct error *error)
{
    const size_t units = config->description->layer_count;
    const uint32_t pipeline = config->mesh.extent[MESH_PIPELINE], stages = config->stages ? config->stages : pipeline;
    *plan = (struct step_plan){.first_unit = calloc((size_t)stages + 1, sizeof *plan->first_unit),
                               .costs = calloc(units, sizeof *plan->costs),
                               .schedules = calloc(pipeline, sizeof *plan->schedules)};
    if (!plan->first_unit || !plan->costs || !plan->schedules)
        return error_memory(error, units * sizeof *plan->costs, "the plan of a step");
    plan->shape.pipeline = pipeline;
    weft_status status = executor_check_config(config, error);
    if (status == WEFT_OK)
        status = stages_cut(config, stages, plan->costs, plan->first_unit, error);
    if (status == WEFT_OK)
        plan->shape = stages_shape(config, stages, plan->first_unit);
    for (uint32_t rank = 0; status == WEFT_OK && rank < pipeline; rank++)
        status = step_write(&plan->shape, rank, &plan->schedules[rank], error);
    if (status == WEFT_OK)
        status = step_verify(&plan->shape, plan->schedules, error);
    return status == WEFT_OK ? time_plan(config, plan, error) : status;
}

void step_plan_close(struct step_plan *plan)
{
    if (plan->times.begin)
        step_times_free(&plan->shape, &plan->times);
    for (uint32_t rank = 0; plan->schedules && rank < plan->shape.pipeline; rank++)
        step_free(&plan->schedules[rank]);
    free(plan->schedules);
    free(plan->first_unit);
    free(plan->costs);
}

uint32_t step_plan_rank_of(const struct step_plan *plan, uint32_t stage)
{
    return stage % plan->shape.pipeline;
}

double step_plan_share_of(const struct step_plan *plan, uint32_t stage)
{
    double all = 0, own = 0;
    for (uint32_t u = 0; u < plan->first_unit[plan->shape.stages]; u++) {
        all += plan->costs[u];
        own += u >= plan->first_unit[stage] && u < plan->first_unit[stage + 1] ? plan->costs[u] : 0;
    }
    return own / all;
}
