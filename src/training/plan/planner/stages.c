/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of strategies: balanced by the costs of layers, and on devices that differ by their speed, too. */
#include "training/plan/planner/internal/parts.h"

#include "training/parallel/execute/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As stages_balance() does, where stage s costs what its units cost on device[s % pipeline]. best[s][u] is the smallest
 * possible cost of the largest of the first s stages, which hold the first u units. */
static weft_status balance_unevenly(const struct planner *planner, const struct pass_work *work,
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
        const double *costs = work->balance + devices[(s - 1) % pipeline] * planner->units;
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

static weft_status cut_unevenly(const struct planner *planner, const struct pass_work *work,
                                const struct planner_place *place, uint32_t stages, uint32_t *first_unit,
                                struct error *error)
{
    const uint32_t pipeline = place->groups.mesh.extent[MESH_PIPELINE];
    uint32_t *devices = calloc(pipeline, sizeof *devices);
    if (!devices)
        return error_memory(error, pipeline * sizeof *devices, "the stages");
    planner_pipeline_devices(planner, place, work, devices);
    weft_status status = balance_unevenly(planner, work, devices, pipeline, stages, first_unit, error);
    free(devices);
    return status;
}

static weft_status add_cut(const struct planner *planner, struct pass_work *work, const struct planner_place *place,
                           uint32_t stages, struct error *error)
{
    struct stage_cut cut = {place, stages, calloc((size_t)stages + 1, sizeof *cut.first_unit)};
    weft_status status = !cut.first_unit ? error_memory(error, stages * sizeof *cut.first_unit, "the stages")
                         : place         ? cut_unevenly(planner, work, place, stages, cut.first_unit, error)
                                 : stages_balance(work->balance + planner_device_of(planner, 0) * planner->units,
                                                  (uint32_t)planner->units, stages, cut.first_unit, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(work->cuts, work->cut_room, work->cut_count + 1, "the stages", error);
    if (status != WEFT_OK) {
        free(cut.first_unit);
        return status;
    }
    work->cuts[work->cut_count++] = cut;
    return WEFT_OK;
}

weft_status planner_cut(struct planner *planner, const struct strategy *strategy, const uint32_t **first_unit,
                        struct error *error)
{
    const uint32_t stages = strategy->stages * strategy->mesh.extent[MESH_PIPELINE];
    const struct planner_place *place = NULL;
    struct pass_work *work;
    weft_status status = planner_work(planner, strategy, &work, error);
    if (status == WEFT_OK && !planner->is_even) /* stages depend on the devices */
        status = planner_place_of(planner, strategy, &place, error);
    if (status != WEFT_OK)
        return status;
    size_t number = 0;
    while (number < work->cut_count && (work->cuts[number].stages != stages || work->cuts[number].place != place))
        number++;
    if (number == work->cut_count)
        status = add_cut(planner, work, place, stages, error);
    if (status == WEFT_OK)
        *first_unit = work->cuts[number].first_unit;
    return status;
}
