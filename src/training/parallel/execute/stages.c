/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of each stage of a pipeline. */
#include "training/parallel/execute/stages.h"

#include "training/parallel/execute/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PREFETCH 1 /* ZeRO-3: units that are gathered ahead of use */

/*
 * best[s][u]: the smallest possible cost of the largest of s stages that hold the first u units. The last of them begins
 * at some unit c, so it is the smallest over c of max(best[s - 1][c], cost of units c to u). Of equal ones the largest c
 * counts.
 *
 * Row s, `best`, from row s - 1, `others`, for u in [s, end]. The cost of the last stage falls with c, that of the others
 * rises, and the c where they cross rises with u, so it is not searched from the beginning for each u.
 */
static void fill_best(const double *before, const double *others, uint32_t s, uint32_t end, double *best,
                      uint32_t *begin)
{
    uint32_t above = s - 1; /* the first c at which the others cost more */
    for (uint32_t u = s; u <= end; u++) {
        while (above < u && before[u] - before[above] >= others[above])
            above++;
        const double last = above >= s ? before[u] - before[above - 1] : INFINITY;
        if (above == u || last < others[above]) {
            best[u] = last;
            begin[u] = above - 1;
            continue;
        }
        best[u] = others[above];
        begin[u] = above;
        while (begin[u] + 1 < u && others[begin[u] + 1] == best[u])
            begin[u]++;
    }
}

weft_status stages_balance(const double *costs, uint32_t units, uint32_t stages, uint32_t *first_unit,
                           struct error *error)
{
    if (stages > units)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%u pipeline stages need as many layers, but the network has %u; use fewer stages", stages,
                         units);
    const size_t row = (size_t)units + 1;
    double *before = malloc(3 * row * sizeof *before), *best[] = {before + row, before + 2 * row};
    uint32_t *begin = malloc((stages + 1) * row * sizeof *begin);
    if (!before || !begin) {
        free(before);
        free(begin);
        return error_memory(error, (stages + 1) * row * sizeof *begin, "the stages of a pipeline");
    }
    before[0] = 0;
    for (uint32_t u = 0; u < units; u++)
        before[u + 1] = before[u] + costs[u];
    for (uint32_t u = 0; u <= units; u++)
        best[0][u] = u ? INFINITY : 0;
    for (uint32_t s = 1; s <= stages; s++) /* each of the stages after it has a unit */
        fill_best(before, best[(s - 1) % 2], s, units - (stages - s), best[s % 2], begin + s * row);
    first_unit[stages] = units;
    for (uint32_t s = stages; s > 0; s--)
        first_unit[s - 1] = begin[s * row + first_unit[s]];
    free(before);
    free(begin);
    return WEFT_OK;
}

static weft_status take_stages(const uint32_t *given, uint32_t units, uint32_t stages, uint32_t *first_unit,
                               struct error *error)
{
    memcpy(first_unit, given, (stages + 1) * sizeof *first_unit);
    if (first_unit[0] != 0 || first_unit[stages] != units)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the %u given stages are of layers %u to %u, not of all %u",
                         stages, first_unit[0], first_unit[stages], units);
    return WEFT_OK; /* step_check_shape() checks that none is empty */
}

weft_status stages_cut(const struct executor_config *config, uint32_t stages, double *costs, uint32_t *first_unit,
                       struct error *error)
{
    const uint32_t units = (uint32_t)config->description->layer_count;
    if (!costs)
        return take_stages(config->first_unit, units, stages, first_unit, error);
    if (config->costs)
        memcpy(costs, config->costs, units * sizeof *costs);
    else
        costs_estimate(config->description, &config->model, costs);
    if (config->first_unit)
        return take_stages(config->first_unit, units, stages, first_unit, error);
    return stages_balance(costs, units, stages, first_unit, error);
}

struct step_shape stages_shape(const struct executor_config *config, uint32_t stages, const uint32_t *first_unit)
{
    const uint32_t data = config->mesh.extent[MESH_DATA];
    const struct micro_batch_division division = executor_division_of(config);
    return (struct step_shape){
        .order = config->schedule,
        .pipeline = config->mesh.extent[MESH_PIPELINE],
        .stages = stages,
        .first_unit = first_unit,
        .micro_batches = micro_batch_rounds(&division),
        .data = data,
        .zero = config->zero,
        .prefetch = PREFETCH,
        .tied = config->description->tied != NO_PARAMETER,
        .recomputes = config->model.recompute != MODEL_RECOMPUTE_NOTHING,
    };
}
