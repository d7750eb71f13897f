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
 * at some unit c, so it is the smallest over c of max(best[s - 1][c], cost of units c to u).
 */
static void fill_best(const double *before, uint32_t units, uint32_t stages, double *best, uint32_t *begin)
{
    const size_t row = units + 1;
    for (uint32_t u = 0; u <= units; u++)
        best[u] = u ? INFINITY : 0;
    for (uint32_t s = 1; s <= stages; s++)
        for (uint32_t u = 0; u <= units; u++) {
            best[s * row + u] = INFINITY;
            for (uint32_t c = u; c-- > 0;) {
                const double last = before[u] - before[c], others = best[(s - 1) * row + c],
                             largest = last > others ? last : others;
                if (last >= best[s * row + u])
                    break; /* it only grows */
                if (largest < best[s * row + u]) {
                    best[s * row + u] = largest;
                    begin[s * row + u] = c;
                }
            }
        }
}

weft_status stages_balance_all(const double *costs, uint32_t units, uint32_t stages, uint32_t **begins,
                               struct error *error)
{
    if (stages > units)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%u pipeline stages need as many layers, but the network has %u; use fewer stages", stages,
                         units);
    const size_t cells = (size_t)(stages + 1) * (units + 1);
    double *best = malloc((cells + units + 1) * sizeof *best), *before = best + cells;
    *begins = calloc(cells, sizeof **begins);
    if (!best || !*begins) {
        free(best);
        free(*begins);
        return error_memory(error, cells * sizeof *best, "the stages of a pipeline");
    }
    before[0] = 0;
    for (uint32_t u = 0; u < units; u++)
        before[u + 1] = before[u] + costs[u];
    fill_best(before, units, stages, best, *begins);
    free(best);
    return WEFT_OK;
}

void stages_take(const uint32_t *begins, uint32_t units, uint32_t stages, uint32_t *first_unit)
{
    first_unit[stages] = units;
    for (uint32_t s = stages; s > 0; s--)
        first_unit[s - 1] = begins[s * (size_t)(units + 1) + first_unit[s]];
}

weft_status stages_balance(const double *costs, uint32_t units, uint32_t stages, uint32_t *first_unit,
                           struct error *error)
{
    uint32_t *begins;
    weft_status status = stages_balance_all(costs, units, stages, &begins, error);
    if (status != WEFT_OK)
        return status;
    stages_take(begins, units, stages, first_unit);
    free(begins);
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
    return (struct step_shape){
        .order = config->schedule,
        .pipeline = config->mesh.extent[MESH_PIPELINE],
        .stages = stages,
        .first_unit = first_unit,
        .micro_batches = (config->micro_batches + data - 1) / data,
        .data = data,
        .zero = config->zero,
        .prefetch = PREFETCH,
        .tied = config->description->tied != NO_PARAMETER,
        .recomputes = config->model.recompute != MODEL_RECOMPUTE_NOTHING,
    };
}
