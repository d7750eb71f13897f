/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation has found. */
#include "training/simulate/internal/step_players.h"

#include <stdlib.h>
#include <string.h>

const char *const step_term_names[STEP_TERMS] = {
    [STEP_TERM_COMPUTE] = "compute",
    [STEP_TERM_RECOMPUTATION] = "recomputation",
    [STEP_TERM_BUBBLE] = "bubble",
    [STEP_TERM_TENSOR] = "tensor communication",
    [STEP_TERM_PIPELINE] = "pipeline communication",
    [STEP_TERM_DATA] = "data communication",
    [STEP_TERM_OPTIMIZER] = "optimizer",
};

const char *const step_level_names[STEP_LINK_LEVELS] = {"within hosts", "between hosts", "between leaves",
                                                        "between pods"};

static void result_sum_terms(const struct step_simulation *simulation, struct step_result *result)
{
    const struct step_fold *fold = &simulation->fold;
    for (uint32_t class = 0; class < fold->class_count; class ++)
        if (simulation->players[class].finished > result->seconds)
            result->seconds = simulation->players[class].finished;
    for (uint32_t class = 0; class < fold->class_count; class ++) {
        const struct class_player *player = &simulation->players[class];
        const double share = (double)fold->size[class] / simulation->costs->ranks;
        for (uint32_t term = 0; term < STEP_TERMS; term++)
            result->terms[term] += player->terms[term] * share;
        result->terms[STEP_TERM_BUBBLE] += (result->seconds - player->finished) * share;
    }
}

static void result_sum_bytes(const struct step_simulation *simulation, struct step_result *result)
{
    const struct step_fold *fold = &simulation->fold;
    for (uint32_t resource = 0; resource < fold->resource_count; resource++) {
        const double bytes = simulation->network.bytes[resource], capacity = fold->capacity[resource] * result->seconds;
        const uint32_t level = fold->resource_level[resource];
        if (resource % 2 == 0)
            result->bytes[level] += bytes * fold->resource_units[resource];
        if (capacity > 0 && bytes / capacity > result->peak[level])
            result->peak[level] = bytes / capacity;
    }
}

/* Hand over what was kept for the caller. */
static weft_status result_take_times(struct step_simulation *simulation, struct step_result *result,
                                     struct error *error)
{
    struct step_fold *fold = &simulation->fold;
    const uint32_t pipeline = simulation->costs->shape.pipeline;
    result->pipeline_of = calloc(fold->class_count, sizeof *result->pipeline_of);
    result->begin = calloc(fold->class_count, sizeof *result->begin);
    result->end = calloc(fold->class_count, sizeof *result->end);
    result->schedules = calloc(pipeline, sizeof *result->schedules);
    if (!result->pipeline_of || !result->begin || !result->end || !result->schedules)
        return error_memory(error, fold->class_count * sizeof *result->begin, "a step's times");
    result->class_of = fold->class_of;
    fold->class_of = NULL;
    for (uint32_t class = 0; class < fold->class_count; class ++) {
        struct class_player *player = &simulation->players[class];
        result->pipeline_of[class] = player->program->schedule.pipeline_rank;
        result->begin[class] = player->begin;
        result->end[class] = player->end;
        player->begin = player->end = NULL;
    }
    for (uint32_t p = 0; p < pipeline; p++) {
        result->schedules[p] = simulation->programs[p].schedule;
        simulation->programs[p].schedule = (struct step_schedule){0};
    }
    result->pipeline = pipeline;
    return WEFT_OK;
}

weft_status step_simulation_result(struct step_simulation *simulation, struct step_result *result, struct error *error)
{
    result->classes = simulation->fold.class_count;
    result->operations = simulation->operations;
    result_sum_terms(simulation, result);
    result_sum_bytes(simulation, result);
    return simulation->options->keep_times ? result_take_times(simulation, result, error) : WEFT_OK;
}

void step_result_free(struct step_result *result)
{
    for (uint32_t class = 0; class < result->classes; class ++) {
        if (result->begin)
            free(result->begin[class]);
        if (result->end)
            free(result->end[class]);
    }
    for (uint32_t p = 0; result->schedules && p < result->pipeline; p++)
        step_free(&result->schedules[p]);
    free(result->class_of);
    free(result->pipeline_of);
    free(result->begin);
    free(result->end);
    free(result->schedules);
    *result = (struct step_result){0};
}

weft_status step_result_times(const struct step_costs *costs, const struct step_result *result,
                              struct step_times *times, struct error *error)
{
    const uint32_t pipeline = result->pipeline;
    *times = (struct step_times){.begin = calloc(pipeline, sizeof *times->begin),
                                 .end = calloc(pipeline, sizeof *times->end),
                                 .seconds = result->seconds};
    if (!times->begin || !times->end) {
        free(times->begin);
        free(times->end);
        return error_memory(error, pipeline * sizeof *times->begin, "a step's times");
    }
    for (uint32_t rank = costs->ranks; rank-- > 0;) { /* the first rank of each place in the pipeline comes last */
        const uint32_t class = result->class_of[rank], p = result->pipeline_of[class];
        times->begin[p] = result->begin[class];
        times->end[p] = result->end[class];
    }
    for (uint32_t p = 0; p < pipeline; p++) {
        const size_t bytes = (result->schedules[p].count + 1) * sizeof(double);
        const double *begin = times->begin[p], *end = times->end[p];
        times->begin[p] = malloc(bytes);
        times->end[p] = malloc(bytes);
        if (times->begin[p] && times->end[p]) {
            memcpy(times->begin[p], begin, bytes - sizeof(double));
            memcpy(times->end[p], end, bytes - sizeof(double));
            continue;
        }
        for (uint32_t q = p + 1; q < pipeline; q++)
            times->begin[q] = times->end[q] = NULL;
        step_times_free(&costs->shape, times);
        return error_memory(error, bytes, "a step's times");
    }
    return WEFT_OK;
}
