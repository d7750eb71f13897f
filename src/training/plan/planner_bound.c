/* SPDX-License-Identifier: Apache-2.0 */
/* Lower bounds on the time of a step: planner.h says what they are. Each term is a time that no schedule avoids. */
#include "training/plan/internal/planner_parts.h"

#include "training/simulate/device_time.h"
#include "training/simulate/work.h"

#include <stdlib.h>

static double longer_of(double a, double b)
{
    return a > b ? a : b;
}

/* ---- hosts ---- */

/* Ranks of a group of `extent`, `stride` ranks apart, that one host has at most. */
static uint32_t together(const struct planner *planner, uint32_t stride, uint32_t extent)
{
    const uint32_t each = planner->setting.cluster->ranks_per_host, most = (each + stride - 1) / stride;
    return most < extent ? most : extent;
}

uint32_t planner_hosts_of(const struct planner *planner, const struct strategy *strategy, enum mesh_axis axis,
                          bool placed)
{
    const uint32_t extent = strategy->mesh.extent[axis];
    uint32_t stride = 1;
    for (unsigned i = 0; placed && strategy->placement.order[i] != axis; i++)
        stride *= strategy->mesh.extent[strategy->placement.order[i]];
    const uint32_t most = together(planner, stride, extent);
    return (extent + most - 1) / most;
}

/* ---- quick ---- */

static double quick_bound(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                          weft_status *status, struct error *error)
{
    struct strategy smallest = {.mesh = partial->mesh, .micro_batch = 1, .precision = planner->space.precisions[0]};
    const struct pass_table *table;
    const uint32_t data = partial->mesh.extent[MESH_DATA];
    double sequences = (planner->space.batch + data - 1) / data;
    if (planner->setting.measure)
        return 0; /* measuring takes time: only where it is needed */
    if (depth >= STRATEGY_PASSES) {
        smallest.recompute = partial->recompute;
        smallest.precision = partial->precision;
        sequences = (double)strategy_rounds(&planner->space, partial) * partial->micro_batch;
    }
    *status = planner_passes(planner, &smallest, &table, error);
    if (*status != WEFT_OK)
        return 0;
    const double rate =
        depth >= STRATEGY_PASSES ? planner->rates[step_precision_of(partial->precision)] : planner->rate;
    const double chain = depth >= STRATEGY_PASSES ? partial->micro_batch : 1;
    return longer_of(sequences * table->flops / partial->mesh.extent[MESH_PIPELINE], chain * table->chain_flops) / rate;
}

/* ---- passes ---- */

static double passes_bound(const struct planner *planner, const struct strategy *partial,
                           const struct pass_table *table)
{
    const double even = table->sum / partial->mesh.extent[MESH_PIPELINE];
    return longer_of(strategy_rounds(&planner->space, partial) * longer_of(even, table->unit_most), table->chain);
}

/* ---- schedules ---- */

/* A pipeline rank: seconds of a micro-batch, and elements of its layers. */
struct bound_rank {
    double all, forward;  /* of all its stages, all passes and forward */
    double first_forward; /* of its first stage */
    double first_back;    /* from the gradient of the first stage's rows to that of its input */
    double first_weights; /* of the first layer of its first stage */
    double backward;      /* both passes of its first stage */
    double elements;      /* of weights */
    double summed;        /* of gradients that are summed over the data axis */
    double largest;       /* elements of its largest layer */
};

static void add_unit(struct bound_rank *rank, const struct strategy *strategy, const struct pass_seconds *own,
                     bool first_stage, bool first_of_stage)
{
    const double forward = own->pass[OPERATION_FORWARD], input = own->pass[OPERATION_BACKWARD_INPUT],
                 weights = own->pass[OPERATION_BACKWARD_WEIGHTS];
    const bool splits = strategy->schedule == STEP_ZERO_BUBBLE_H1;
    rank->all += forward + input + weights;
    rank->forward += forward;
    if (!first_stage)
        return;
    rank->first_forward += forward;
    rank->backward += input + weights;
    rank->first_back += input + (splits || first_of_stage ? 0 : weights);
    if (first_of_stage)
        rank->first_weights = splits ? 0 : weights;
}

static void fill_ranks(const struct planner *planner, const struct strategy *strategy, const struct pass_table *table,
                       const uint32_t *first_unit, const uint32_t *devices, const double *summed,
                       struct bound_rank *ranks)
{
    const uint32_t pipeline = strategy->mesh.extent[MESH_PIPELINE];
    for (uint32_t stage = 0; stage < strategy->stages * pipeline; stage++) {
        struct bound_rank *rank = &ranks[stage % pipeline];
        const struct pass_seconds *seconds = table->seconds + devices[stage % pipeline] * planner->units;
        for (uint32_t u = first_unit[stage]; u < first_unit[stage + 1]; u++) {
            add_unit(rank, strategy, &seconds[u], stage < pipeline, u == first_unit[stage]);
            rank->elements += table->elements[u];
            rank->summed += summed[u];
            rank->largest = longer_of(rank->largest, table->elements[u]);
        }
    }
}

/* Seconds for collectives over the data axis that bring a rank `share` of its elements times `bytes`, with every
 * placement or as placed. */
static double data_seconds(const struct planner *planner, const struct strategy *strategy,
                           const struct bound_rank *ranks, double times, bool placed, bool of_weights)
{
    const struct planner_cluster *cluster = planner->setting.cluster;
    const uint32_t data = strategy->mesh.extent[MESH_DATA], pipeline = strategy->mesh.extent[MESH_PIPELINE],
                   hosts = planner_hosts_of(planner, strategy, MESH_DATA, placed),
                   used = (mesh_ranks(&strategy->mesh) + cluster->ranks_per_host - 1) / cluster->ranks_per_host;
    const double size = of_weights ? sizeof(float) : (double)weft_type_size(planner->setting.config->gradients);
    double most = 0, all = 0;
    for (uint32_t p = 0; p < pipeline; p++) {
        const double bytes = size * times * (of_weights ? ranks[p].elements : ranks[p].summed);
        most = longer_of(most, bytes);
        all += bytes * strategy->mesh.extent[MESH_TENSOR];
    }
    const double near_seconds = most * (data - 1) / data / planner->near_bandwidth,
                 far_seconds = all * (hosts - 1) / used / cluster->links.far.bandwidth;
    return longer_of(near_seconds, far_seconds);
}

/* Until the last rank has nothing left but the optimizer. */
static double passes_end(const struct planner *planner, const struct strategy *strategy, const struct bound_rank *ranks,
                         double *first_reduction)
{
    const double rounds = strategy_rounds(&planner->space, strategy);
    const bool in_turn = strategy->schedule == STEP_GPIPE || strategy->schedule == STEP_1F1B;
    double end = 0, arrival = 0, back = 0;
    for (uint32_t p = 0; p < strategy->mesh.extent[MESH_PIPELINE]; p++) {
        const struct bound_rank *rank = &ranks[p];
        const double busy = arrival + rounds * rank->all,
                     reduction = arrival + (in_turn ? rounds * rank->all - rank->backward : rounds * rank->forward);
        end = longer_of(end, busy);
        if (strategy->schedule != STEP_ZERO_BUBBLE_H1 && p > 0)
            end = longer_of(end, busy - rank->first_weights + back + ranks[0].first_weights);
        *first_reduction = p == 0 || reduction < *first_reduction ? reduction : *first_reduction;
        arrival += rank->first_forward;
        back += rank->first_back;
    }
    return end;
}

static double update_seconds(const struct planner *planner, const struct strategy *strategy,
                             const struct bound_rank *ranks)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    double most = 0;
    for (uint32_t p = 0; p < strategy->mesh.extent[MESH_PIPELINE]; p++)
        most = longer_of(most, ranks[p].summed);
    const struct layer_work work = work_update(implementation_weft(step_precision_of(strategy->precision)),
                                               most / (strategy->zero ? strategy->mesh.extent[MESH_DATA] : 1));
    double least = 0;
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        const double seconds = device_seconds(&cluster->devices[d], &work);
        least = d == 0 || seconds < least ? seconds : least;
    }
    return least;
}

/* ZeRO-3: elements that a rank gathers in a step for its passes at least: each layer for each pass in both directions,
 * but for those that may still be there. */
static double gathered_times(const struct planner *planner, const struct strategy *strategy,
                             const struct bound_rank *rank)
{
    const double rounds = strategy_rounds(&planner->space, strategy), kept = 3 * rank->largest;
    return rank->elements > kept ? rounds * 2 * (rank->elements - kept) / rank->elements : 0;
}

static double schedule_seconds(const struct planner *planner, const struct strategy *strategy,
                               const struct bound_rank *ranks, bool placed)
{
    const double rounds = strategy_rounds(&planner->space, strategy);
    double first_reduction = 0, gathers = 0;
    double end = passes_end(planner, strategy, ranks, &first_reduction);
    const double update = update_seconds(planner, strategy, ranks);
    if (strategy->mesh.extent[MESH_DATA] == 1)
        return end + update;
    if (strategy->zero < 2)
        end = longer_of(end, first_reduction +
                                 data_seconds(planner, strategy, ranks, strategy->zero ? 1 : 2, placed, false));
    else
        end = longer_of(end, data_seconds(planner, strategy, ranks, rounds, placed, false));
    if (strategy->zero == 3) {
        gathers = gathered_times(planner, strategy, &ranks[0]);
        for (uint32_t p = 1; p < strategy->mesh.extent[MESH_PIPELINE]; p++) {
            const double times = gathered_times(planner, strategy, &ranks[p]);
            gathers = times < gathers ? times : gathers;
        }
        end = longer_of(end, data_seconds(planner, strategy, ranks, gathers, placed, true));
    }
    if (strategy->zero == 1 || strategy->zero == 2)
        return end + longer_of(update, data_seconds(planner, strategy, ranks, 1, placed, true));
    return end + update;
}

/* Elements of each layer whose gradients are certainly summed: not a tied table's, which may be sparse, nor frozen ones. */
static void count_summed(const struct planner *planner, const struct pass_table *table, double *summed)
{
    const struct model_description *description = planner->setting.description;
    for (size_t u = 0; u < planner->units; u++)
        summed[u] = description->frozen_weights || model_layer_uses_tied(description, u) ? 0 : table->elements[u];
}

static weft_status schedule_bound(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                                  const struct pass_table *table, double *seconds, struct error *error)
{
    const uint32_t pipeline = partial->mesh.extent[MESH_PIPELINE];
    double *summed = calloc(planner->units, sizeof *summed);
    uint32_t *devices = calloc(pipeline, sizeof *devices);
    struct bound_rank *ranks = calloc(pipeline, sizeof *ranks);
    const uint32_t *first_unit;
    weft_status status =
        summed && devices && ranks ? WEFT_OK : error_memory(error, pipeline * sizeof *ranks, "a bound");
    if (status == WEFT_OK)
        count_summed(planner, table, summed);
    for (uint32_t p = 0; status == WEFT_OK && p < pipeline; p++)
        devices[p] = planner_device_of(planner, 0);
    if (status == WEFT_OK && !planner->is_even)
        status = planner_pipeline_devices(planner, partial, table, devices, error);
    if (status == WEFT_OK)
        status = planner_cut(planner, partial, table, &first_unit, error);
    if (status == WEFT_OK) {
        fill_ranks(planner, partial, table, first_unit, devices, summed, ranks);
        *seconds = longer_of(*seconds, schedule_seconds(planner, partial, ranks, depth == STRATEGY_WHOLE));
    }
    free(summed);
    free(devices);
    free(ranks);
    return status;
}

weft_status planner_bound(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                          bool close, double *seconds, struct error *error)
{
    const struct pass_table *table;
    weft_status status = WEFT_OK;
    *seconds = 0;
    if (depth == STRATEGY_ALL || (!close && depth > STRATEGY_PASSES))
        return WEFT_OK;
    if (!close || depth == STRATEGY_MESH) {
        *seconds = quick_bound(planner, partial, depth, &status, error);
        return status;
    }
    status = planner_passes(planner, partial, &table, error);
    if (status != WEFT_OK)
        return status;
    *seconds = passes_bound(planner, partial, table);
    /* Where devices differ, the stages depend on the placement. */
    if (depth == STRATEGY_WHOLE || (depth == STRATEGY_SCHEDULE && planner->is_even))
        status = schedule_bound(planner, partial, depth, table, seconds, error);
    return status;
}
