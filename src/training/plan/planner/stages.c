/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of strategies: balanced by the costs of layers, and on devices that differ by their speed, too; so are the
 * shares of micro-batches. */
#include "training/plan/planner/internal/parts.h"

#include "training/parallel/execute/stages.h"
#include "training/parallel/sharding/canonical_runs.h"

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
    planner_pipeline_devices(planner, place, work, false, devices);
    weft_status status = balance_unevenly(planner, work, devices, pipeline, stages, first_unit, error);
    free(devices);
    return status;
}

/* ---- shares ---- */

bool planner_may_share_unevenly(const struct planner *planner, const struct strategy *partial,
                                enum strategy_depth depth)
{
    return !planner->is_even && partial->mesh.extent[MESH_DATA] > 1 &&
           (depth < STRATEGY_SCHEDULE || partial->schedule != STEP_INTERLEAVED) && /* which needs equal rounds */
           (depth < STRATEGY_WHOLE || (partial->shares_by_speed && partial->zero < 2));
}

/* Seconds that each rank of the data axis takes for a micro-batch: those of its slowest rank. */
static void seconds_of_shares(const struct planner *planner, const struct pass_work *work, const struct stage_cut *cut,
                              double *seconds)
{
    const struct step_costs *groups = &cut->place->groups;
    const uint32_t pipeline = groups->mesh.extent[MESH_PIPELINE], ranks = mesh_ranks(&groups->mesh);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint32_t *point = groups->points + (size_t)rank * MESH_AXES;
        const double *costs = work->balance + planner_device_of(planner, rank) * planner->units;
        double own = 0;
        for (uint32_t s = point[MESH_PIPELINE]; s < cut->stages; s += pipeline)
            for (uint32_t u = cut->first_unit[s]; u < cut->first_unit[s + 1]; u++)
                own += costs[u];
        seconds[point[MESH_DATA]] = fmax(seconds[point[MESH_DATA]], own);
    }
}

static double longest_share(const uint32_t *shares, const double *seconds, uint32_t data)
{
    double longest = 0;
    for (uint32_t d = 0; d < data; d++)
        longest = fmax(longest, shares[d] * seconds[d]);
    return longest;
}

/* Each micro-batch goes to the rank that is done with it first. */
static void deal_micro_batches(uint32_t total, const double *seconds, uint32_t data, uint32_t *shares)
{
    for (uint32_t d = 0; d < data; d++)
        shares[d] = 1;
    for (uint32_t left = total - data; left > 0; left--) {
        uint32_t first = 0;
        for (uint32_t d = 1; d < data; d++)
            if ((shares[d] + 1) * seconds[d] < (shares[first] + 1) * seconds[first])
                first = d;
        shares[first]++;
    }
}

#define SHARES_WORTH 0.95 /* of the time of equal ones: unequal runs take more messages to sum */

static weft_status add_shares(const struct planner *planner, const struct pass_work *work,
                              const struct strategy *strategy, struct stage_cut *cut, struct error *error)
{
    const uint32_t data = strategy->mesh.extent[MESH_DATA];
    const struct micro_batch_division equal = {.total = strategy_micro_batches(&planner->space, strategy),
                                               .ranks = data};
    double *seconds = calloc(data, sizeof *seconds);
    uint32_t *shares = calloc(2 * (size_t)data, sizeof *shares);
    if (!seconds || !shares) {
        free(seconds);
        free(shares);
        return error_memory(error, data * sizeof *seconds, "the shares of a plan");
    }
    seconds_of_shares(planner, work, cut, seconds);
    deal_micro_batches(equal.total, seconds, data, shares);
    for (uint32_t d = 0; d < data; d++)
        shares[data + d] = micro_batch_run(&equal, d).count;
    if (longest_share(shares, seconds, data) < SHARES_WORTH * longest_share(shares + data, seconds, data))
        cut->shares = shares;
    else
        free(shares);
    free(seconds);
    return WEFT_OK;
}

/* ---- both, for each choice of passes ---- */

static weft_status add_cut(const struct planner *planner, struct pass_work *work, const struct planner_place *place,
                           const struct strategy *strategy, struct error *error)
{
    const uint32_t stages = strategy->stages * strategy->mesh.extent[MESH_PIPELINE];
    struct stage_cut cut = {place, stages, calloc((size_t)stages + 1, sizeof *cut.first_unit), NULL};
    weft_status status = !cut.first_unit ? error_memory(error, stages * sizeof *cut.first_unit, "the stages")
                         : place         ? cut_unevenly(planner, work, place, stages, cut.first_unit, error)
                                 : stages_balance(work->balance + planner_device_of(planner, 0) * planner->units,
                                                  (uint32_t)planner->units, stages, cut.first_unit, error);
    if (status == WEFT_OK && place && strategy->mesh.extent[MESH_DATA] > 1)
        status = add_shares(planner, work, strategy, &cut, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(work->cuts, work->cut_room, work->cut_count + 1, "the stages", error);
    if (status != WEFT_OK) {
        free(cut.first_unit);
        free(cut.shares);
        return status;
    }
    work->cuts[work->cut_count++] = cut;
    return WEFT_OK;
}

weft_status planner_cut(struct planner *planner, const struct strategy *strategy, const struct stage_cut **cut,
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
        status = add_cut(planner, work, place, strategy, error);
    if (status == WEFT_OK)
        *cut = &work->cuts[number];
    return status;
}
