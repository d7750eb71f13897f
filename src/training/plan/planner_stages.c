/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of strategies: balanced by the costs of layers, and on devices that differ by their speed, too. */
#include "training/plan/internal/planner_parts.h"

#include "training/parallel/execute/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

weft_status planner_pipeline_devices(struct planner *planner, const struct strategy *strategy,
                                     const struct pass_table *table, uint32_t *devices, struct error *error)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    const uint32_t ranks = mesh_ranks(&strategy->mesh), pipeline = strategy->mesh.extent[MESH_PIPELINE];
    double times[CLUSTER_DEVICES_MOST] = {0};
    uint32_t *points = malloc((size_t)ranks * MESH_AXES * sizeof *points);
    if (!points)
        return error_memory(error, ranks * MESH_AXES * sizeof *points, "the places of ranks");
    for (uint32_t d = 0; d < cluster->device_count; d++)
        for (size_t u = 0; u < planner->units; u++)
            times[d] += table->balance[d * planner->units + u];
    for (uint32_t p = 0; p < pipeline; p++)
        devices[p] = UINT32_MAX;
    weft_status status = mesh_place(&strategy->mesh, &strategy->placement, cluster->hosts, points, error);
    for (uint32_t rank = 0; rank < ranks && status == WEFT_OK; rank++) {
        const uint32_t device = planner_device_of(planner, rank);
        uint32_t *slowest = &devices[points[(size_t)rank * MESH_AXES + MESH_PIPELINE]];
        if (*slowest == UINT32_MAX || times[device] > times[*slowest])
            *slowest = device;
    }
    free(points);
    return status;
}

/* As stages_balance() does, where stage s costs what its units cost on device[s % pipeline]. best[s][u] is the smallest
 * possible cost of the largest of the first s stages, which hold the first u units. */
static weft_status balance_unevenly(const struct planner *planner, const struct pass_table *table,
                                    const uint32_t *devices, uint32_t pipeline, uint32_t stages, uint32_t *first_unit,
                                    struct error *error)
{
    const uint32_t units = (uint32_t)planner->units;
    const size_t row = units + 1, cells = (stages + 1) * row;
    double *best = malloc(cells * sizeof *best);
    uint32_t *begin = calloc(cells, sizeof *begin);
    weft_status status =
        best && begin ? WEFT_OK : error_memory(error, cells * sizeof *best, "the stages of a pipeline");
    if (status == WEFT_OK && stages > units)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "%u stages need as many layers, not %u", stages, units);
    for (uint32_t u = 0; status == WEFT_OK && u <= units; u++)
        best[u] = u ? INFINITY : 0;
    for (uint32_t s = 1; status == WEFT_OK && s <= stages; s++) {
        const double *costs = table->balance + devices[(s - 1) % pipeline] * planner->units;
        for (uint32_t u = 0; u <= units; u++) {
            double last = 0;
            best[s * row + u] = INFINITY;
            for (uint32_t c = u; c-- > 0 && last < best[s * row + u];) {
                last += costs[c];
                const double largest = fmax(last, best[(s - 1) * row + c]);
                if (largest < best[s * row + u]) {
                    best[s * row + u] = largest;
                    begin[s * row + u] = c;
                }
            }
        }
    }
    first_unit[stages] = units;
    for (uint32_t s = stages; status == WEFT_OK && s > 0; s--)
        first_unit[s - 1] = begin[s * row + first_unit[s]];
    free(best);
    free(begin);
    return status;
}

static weft_status add_cut(struct planner *planner, const struct strategy *strategy, struct pass_table *table,
                           uint32_t stages, struct error *error)
{
    const uint32_t pipeline = strategy->mesh.extent[MESH_PIPELINE];
    struct stage_cut cut = {stages, calloc((size_t)stages + 1, sizeof *cut.first_unit)};
    uint32_t *devices = calloc(pipeline, sizeof *devices);
    weft_status status = cut.first_unit && devices ? WEFT_OK : error_memory(error, stages * 4, "the stages");
    if (status == WEFT_OK && planner->is_even)
        status = stages_balance(table->balance + planner_device_of(planner, 0) * planner->units,
                                (uint32_t)planner->units, stages, cut.first_unit, error);
    else if (status == WEFT_OK) {
        status = planner_pipeline_devices(planner, strategy, table, devices, error);
        if (status == WEFT_OK)
            status = balance_unevenly(planner, table, devices, pipeline, stages, cut.first_unit, error);
    }
    free(devices);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(table->cuts, table->cut_room, table->cut_count + 1, "the stages", error);
    if (status != WEFT_OK) {
        free(cut.first_unit);
        return status;
    }
    table->cuts[table->cut_count++] = cut;
    return WEFT_OK;
}

weft_status planner_cut(struct planner *planner, const struct strategy *strategy, const struct pass_table *borrowed,
                        const uint32_t **first_unit, struct error *error)
{
    struct pass_table *table = (struct pass_table *)(uintptr_t)borrowed; /* the planner's own */
    const uint32_t stages = strategy->stages * strategy->mesh.extent[MESH_PIPELINE];
    weft_status status = WEFT_OK;
    if (!planner->is_even) /* cuts depend on the placement: keep the newest one only */
        while (table->cut_count)
            free(table->cuts[--table->cut_count].first_unit);
    size_t number = 0;
    while (number < table->cut_count && table->cuts[number].stages != stages)
        number++;
    if (number == table->cut_count)
        status = add_cut(planner, strategy, table, stages, error);
    if (status == WEFT_OK)
        *first_unit = table->cuts[number].first_unit;
    return status;
}
