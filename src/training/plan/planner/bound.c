/* SPDX-License-Identifier: Apache-2.0 */
/* Lower bounds on the time of a step: planner.h says what they are. Each term is a time that no schedule avoids. */
#include "training/plan/planner/internal/parts.h"

#include "training/simulate/device_time.h"
#include "training/simulate/step_reductions.h"

#include <stdlib.h>

static double longer_of(double a, double b)
{
    return a > b ? a : b;
}

/* ---- quick ---- */

static double quick_bound(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                          weft_status *status, struct error *error)
{
    struct strategy smallest = {.mesh = partial->mesh, .micro_batch = 1, .precision = planner->space.precisions[0]};
    struct pass_work *work;
    const uint32_t data = partial->mesh.extent[MESH_DATA];
    double sequences = (planner->space.batch + data - 1) / data;
    if (planner->setting.measure)
        return 0; /* measuring takes time: only where it is needed */
    if (depth >= STRATEGY_PASSES) {
        smallest.recompute = partial->recompute;
        smallest.recompute_layers = partial->recompute_layers;
        smallest.precision = partial->precision;
        sequences = (double)strategy_rounds(&planner->space, partial) * partial->micro_batch;
    }
    *status = planner_work(planner, &smallest, &work, error);
    if (*status != WEFT_OK)
        return 0;
    const double rate =
        depth >= STRATEGY_PASSES ? planner->rates[step_precision_of(partial->precision)] : planner->rate;
    const double chain = depth >= STRATEGY_PASSES ? partial->micro_batch : 1;
    return longer_of(sequences * work->flops / partial->mesh.extent[MESH_PIPELINE], chain * work->chain_flops) / rate;
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
    double message;       /* to the next rank, or back from it */
    double reduction;     /* when its first reduction may begin, under ZeRO-0 and 1 */
    double elements;      /* of weights */
    double summed;        /* of gradients that are summed over the data axis */
    double largest;       /* elements of its largest layer */
};

struct bound {
    struct planner *planner;
    const struct strategy *strategy;
    const struct pass_table *table;
    const struct planner_place *place;
    struct bound_rank *ranks;          /* [pipeline] */
    double *bytes[PLACE_TRANSFERS];    /* [pipeline]: over the data axis */
    double rounds;                     /* micro-batches of the data rank that has most, at least */
    struct step_reductions reductions; /* of whole strategies */
};

static uint32_t bound_pipeline(const struct bound *bound)
{
    return bound->strategy->mesh.extent[MESH_PIPELINE];
}

static void add_unit(struct bound_rank *rank, const struct strategy *strategy, const double own[PASS_KINDS],
                     bool first_stage, bool first_of_stage)
{
    const double forward = own[OPERATION_FORWARD], input = own[OPERATION_BACKWARD_INPUT],
                 weights = own[OPERATION_BACKWARD_WEIGHTS];
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

static void fill_ranks(const struct bound *bound, const uint32_t *first_unit, const uint32_t *devices)
{
    const struct planner *planner = bound->planner;
    const struct pass_work *work = bound->table->work;
    const uint32_t pipeline = bound_pipeline(bound);
    for (uint32_t stage = 0; stage < bound->strategy->stages * pipeline; stage++) {
        struct bound_rank *rank = &bound->ranks[stage % pipeline];
        for (uint32_t u = first_unit[stage]; u < first_unit[stage + 1]; u++) {
            add_unit(rank, bound->strategy, bound->table->seconds[devices[stage % pipeline] * planner->units + u],
                     stage < pipeline, u == first_unit[stage]);
            rank->elements += work->elements[u];
            rank->summed += planner->summed[u] * work->elements[u];
            rank->largest = longer_of(rank->largest, work->elements[u]);
        }
    }
    for (uint32_t p = 0; p < pipeline; p++)
        bound->ranks[p].message =
            step_message_of(&planner->setting.cluster->step, bound->place->levels[p], work->message_bytes).seconds;
}

/* 1F1B: the first rank begins no more than one micro-batch for each rank of the pipeline before the first of them has
 * come back, so that in a step of R micro-batches a whole way forth and back follows another R / pipeline times. */
static double turns_end(const struct bound *bound)
{
    const uint32_t pipeline = bound_pipeline(bound), rounds = (uint32_t)bound->rounds, turns = (rounds - 1) / pipeline;
    double way = bound->ranks[0].first_forward + bound->ranks[0].backward;
    for (uint32_t p = 1; p < pipeline; p++)
        way += bound->ranks[p].first_forward + bound->ranks[p].first_back + 2 * bound->ranks[p - 1].message;
    return (turns + 1) * way + (rounds - 1 - turns * pipeline) * bound->ranks[0].backward;
}

/* Until the last rank has nothing left but the optimizer. */
static double passes_end(const struct bound *bound)
{
    const struct strategy *strategy = bound->strategy;
    const bool in_turn = strategy->schedule == STEP_GPIPE || strategy->schedule == STEP_1F1B;
    double end = strategy->schedule == STEP_1F1B ? turns_end(bound) : 0, arrival = 0, back = 0;
    for (uint32_t p = 0; p < bound_pipeline(bound); p++) {
        struct bound_rank *rank = &bound->ranks[p];
        const double busy = arrival + bound->rounds * rank->all;
        rank->reduction =
            arrival + (in_turn ? bound->rounds * rank->all - rank->backward : bound->rounds * rank->forward);
        end = longer_of(end, busy);
        if (strategy->schedule != STEP_ZERO_BUBBLE_H1 && p > 0)
            end = longer_of(end, busy - rank->first_weights + back + bound->ranks[0].first_weights);
        arrival += rank->first_forward + rank->message;
        back += rank->first_back + rank->message;
    }
    return end;
}

/* ---- the data axis and the optimizer ---- */

/* ZeRO-3: how often a rank gathers its elements in a step for its passes at least: each layer for each pass in both
 * directions, but for those that may still be there. */
static double gathered_times(const struct bound *bound, const struct bound_rank *rank)
{
    const double kept = 3 * rank->largest;
    return rank->elements > kept ? bound->rounds * 2 * (rank->elements - kept) / rank->elements : 0;
}

/* Reductions of a layer in a step in which all ranks take part. */
static double whole_reductions(const struct bound *bound)
{
    return bound->strategy->zero < 2 ? 1 : bound->rounds - (bound->reductions.last > 0);
}

/* What a group of the data axis sends in the last round, as a share of a whole one, at least; 0: that is whole, too. */
static double least_last_share(const struct bound *bound)
{
    const struct step_placements *data = &bound->place->data;
    double least = 1;
    for (uint32_t class = 0; class < data->count; class ++) {
        const double share = step_reductions_last_share(&bound->reductions, &data->classes[class]);
        least = share < least ? share : least;
    }
    return least;
}

/* Seconds of all transfers over the data axis before the update. */
static double reductions_seconds(const struct bound *bound)
{
    const struct strategy *strategy = bound->strategy;
    const struct step_reductions *reductions = &bound->reductions;
    const double weight = (double)weft_type_size(strategy->precision), whole = whole_reductions(bound),
                 last = least_last_share(bound);
    for (uint32_t p = 0; p < bound_pipeline(bound); p++) {
        const struct bound_rank *rank = &bound->ranks[p];
        const double once = rank->summed * reductions->element_bytes, summed = once * whole;
        /* A reduce-scatter moves half as much as an all-reduce, and no more than an all-to-all, which arrays without even
         * slices take. */
        bound->bytes[PLACE_REDUCE][p] = reductions->in_place ? summed : reductions->scatters ? summed / 2 : 0;
        bound->bytes[PLACE_EXCHANGE][p] = once * last + (reductions->in_place || reductions->scatters ? 0 : summed);
        bound->bytes[PLACE_GATHER][p] = strategy->zero == 3   ? rank->elements * weight * gathered_times(bound, rank)
                                        : reductions->gathers ? summed
                                                              : 0;
    }
    return planner_data_seconds(bound->planner, bound->place, (const double *const *)bound->bytes);
}

static bool bound_sends_weights(const struct bound *bound)
{
    return bound->strategy->zero == 1 || bound->strategy->zero == 2;
}

/* New weights to all ranks. */
static double sharing_seconds(const struct bound *bound)
{
    const double *bytes[PLACE_TRANSFERS] = {[PLACE_GATHER] = bound->bytes[PLACE_GATHER]};
    for (uint32_t p = 0; p < bound_pipeline(bound); p++)
        bound->bytes[PLACE_GATHER][p] = bound->ranks[p].summed * sizeof(float);
    return planner_data_seconds(bound->planner, bound->place, bytes);
}

/* Of all pipeline ranks. */
static double least_summed(const struct bound *bound)
{
    double least = bound->ranks[0].summed;
    for (uint32_t p = 1; p < bound_pipeline(bound); p++)
        least = bound->ranks[p].summed < least ? bound->ranks[p].summed : least;
    return least;
}

/* On the device that is fastest at it. */
static double least_seconds(const struct bound *bound, const struct layer_work *work)
{
    const struct step_cluster *cluster = &bound->planner->setting.cluster->step;
    double least = 0;
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        const double seconds = device_seconds(&cluster->devices[d], work);
        least = d == 0 || seconds < least ? seconds : least;
    }
    return least;
}

/* The norm of the rank that is last, which may be the one with the fewest gradients, and then the optimizer on `elements`. */
static double update_seconds(const struct bound *bound, double elements)
{
    const struct strategy *strategy = bound->strategy;
    const struct implementation *implementation = implementation_weft(step_precision_of(strategy->precision));
    const double owners = strategy->zero ? strategy->mesh.extent[MESH_DATA] : 1;
    const struct layer_work update = work_step(implementation, bound->planner->setting.config->optimizer.kind,
                                               elements / owners),
                            norm = work_norm(implementation, least_summed(bound) / owners);
    return least_seconds(bound, &update) + least_seconds(bound, &norm);
}

static double first_reduction_of(const struct bound *bound)
{
    double first = bound->ranks[0].reduction;
    for (uint32_t p = 1; p < bound_pipeline(bound); p++)
        first = bound->ranks[p].reduction < first ? bound->ranks[p].reduction : first;
    return bound->strategy->zero < 2 ? first : 0;
}

static double schedule_seconds(const struct bound *bound, enum strategy_depth depth)
{
    const struct strategy *strategy = bound->strategy;
    double end = passes_end(bound);
    if (depth < STRATEGY_WHOLE)
        return end;
    double most = 0;
    for (uint32_t p = 0; p < bound_pipeline(bound); p++)
        most = longer_of(most, bound->ranks[p].summed);
    if (strategy->mesh.extent[MESH_DATA] == 1)
        return end + update_seconds(bound, most);
    const double reductions = reductions_seconds(bound);
    end = longer_of(end, first_reduction_of(bound) + reductions);
    if (!bound_sends_weights(bound))
        return end + update_seconds(bound, most);
    /* New weights and the next gradients use the same links, and no rank passes anything before it has updated. */
    return longer_of(end + update_seconds(bound, least_summed(bound)), sharing_seconds(bound) + reductions);
}

/* ---- one group of the data axis ---- */

/* Its collectives follow one another: `after` an update the new weights, then those before the next one. */
struct bound_lane {
    const struct step_placement *placement;
    double last_share; /* of the last round */
    double before, after, longest_gather;
};

static weft_status lane_price_gather(const struct bound *bound, const struct bound_lane *lane, double bytes,
                                     double *seconds, struct error *error)
{
    const struct step_request request = {.collective = COLLECTIVE_ALLGATHER, .bytes = bytes, .reproducible = true};
    struct step_transfer transfer = {0};
    const weft_status status = step_prices_add(bound->planner->prices, lane->placement, &request, &transfer, error);
    *seconds = transfer.seconds;
    return status;
}

/* The gradients of a unit, or of a bucket. */
static weft_status lane_reduce(const struct bound *bound, struct bound_lane *lane, double bytes, struct error *error)
{
    const struct step_reductions *reductions = &bound->reductions;
    struct step_prices *prices = bound->planner->prices;
    struct step_transfer whole = {0}, last = {0};
    weft_status status = step_reductions_add(reductions, prices, lane->placement, bytes, &whole, error);
    if (status == WEFT_OK)
        status = step_reductions_add_last(reductions, prices, lane->placement, bytes, lane->last_share, &last, error);
    lane->before += whole_reductions(bound) * whole.seconds + last.seconds;
    return status;
}

static weft_status lane_gather(const struct bound *bound, struct bound_lane *lane, uint32_t unit, struct error *error)
{
    const struct pass_work *work = bound->table->work;
    double seconds = 0;
    weft_status status = WEFT_OK;
    if (bound->strategy->zero == 3) {
        status = lane_price_gather(bound, lane, work->gathered[unit], &seconds, error);
        lane->before += 2 * bound->rounds * seconds;
        lane->longest_gather = longer_of(lane->longest_gather, seconds);
    } else if (bound->strategy->zero) {
        status = lane_price_gather(bound, lane, work->owned[unit] * sizeof(float), &seconds, error);
        lane->after += seconds;
    }
    return status;
}

static weft_status lane_stage(const struct bound *bound, struct bound_lane *lane, uint32_t first, uint32_t end,
                              struct error *error)
{
    const struct planner *planner = bound->planner;
    const bool buckets = bound->reductions.in_place;
    double filled = 0;
    weft_status status = WEFT_OK;
    for (uint32_t unit = first; unit < end && buckets; unit++)
        if (!(planner->summed[unit] > 0))
            return WEFT_OK; /* it may fill a bucket, or not */
    for (uint32_t unit = end; unit-- > first && status == WEFT_OK;) {
        if (!(planner->summed[unit] > 0))
            continue;
        filled += bound->table->work->owned[unit] * bound->reductions.element_bytes;
        if (!buckets || filled >= (double)bound->strategy->bucket_bytes) {
            status = lane_reduce(bound, lane, filled, error);
            filled = 0;
        }
        if (status == WEFT_OK)
            status = lane_gather(bound, lane, unit, error);
    }
    return status;
}

/* The group of the first tensor rank of the pipeline rank that has most gradients to sum. */
static weft_status lane_bound(const struct bound *bound, const uint32_t *first_unit, double *seconds,
                              struct error *error)
{
    const struct strategy *strategy = bound->strategy;
    const struct step_costs *groups = &bound->place->groups;
    const uint32_t pipeline = bound_pipeline(bound);
    uint32_t most = 0;
    for (uint32_t p = 1; p < pipeline; p++)
        most = bound->ranks[p].summed > bound->ranks[most].summed ? p : most;
    const uint32_t group = groups->groups[MESH_DATA][bound->place->first_rank[most]];
    struct bound_lane lane = {.placement = &bound->place->data.classes[groups->group_class[MESH_DATA][group]]};
    lane.last_share = step_reductions_last_share(&bound->reductions, lane.placement);
    weft_status status = WEFT_OK;
    for (uint32_t stage = most; stage < strategy->stages * pipeline && status == WEFT_OK; stage += pipeline)
        status = lane_stage(bound, &lane, first_unit[stage], first_unit[stage + 1], error);
    const double kept = 6 * bound->rounds * lane.longest_gather, /* gathered_times() */
        before = lane.before > kept ? lane.before - kept : 0;
    *seconds = longer_of(*seconds, (strategy->zero < 2 ? bound->ranks[most].reduction : 0) + before);
    *seconds = longer_of(*seconds, lane.after + before);
    return status;
}

static weft_status schedule_bound(struct bound *bound, enum strategy_depth depth, enum search_effort effort,
                                  double *seconds, struct error *error)
{
    struct planner *planner = bound->planner;
    const uint32_t pipeline = bound_pipeline(bound);
    uint32_t *devices = calloc(pipeline, sizeof *devices);
    double *bytes = calloc((size_t)pipeline * PLACE_TRANSFERS, sizeof *bytes);
    bound->ranks = calloc(pipeline, sizeof *bound->ranks);
    const struct stage_cut *cut;
    weft_status status = devices && bytes && bound->ranks
                             ? planner_cut(planner, bound->strategy, &cut, error)
                             : error_memory(error, pipeline * sizeof *bound->ranks, "a bound");
    if (status == WEFT_OK) {
        for (int transfer = 0; transfer < PLACE_TRANSFERS; transfer++)
            bound->bytes[transfer] = bytes + (size_t)transfer * pipeline;
        const struct micro_batch_division division = {
            .total = strategy_micro_batches(&planner->space, bound->strategy),
            .ranks = bound->strategy->mesh.extent[MESH_DATA],
            .counts = planner_may_share_unevenly(planner, bound->strategy, depth) ? cut->shares : NULL};
        if (depth == STRATEGY_WHOLE) {
            bound->rounds = micro_batch_rounds(&division);
            bound->reductions =
                step_reductions_of(implementation_weft(step_precision_of(bound->strategy->precision)),
                                   bound->strategy->zero, &division, planner->setting.config->gradients);
        }
        /* The data rank that has most micro-batches may be fast, and those that are slow at different places of the
         * pipeline need not be the same. */
        planner_pipeline_devices(planner, bound->place, bound->table->work, division.ranks > 1, devices);
        fill_ranks(bound, cut->first_unit, devices);
        *seconds = longer_of(*seconds, schedule_seconds(bound, depth));
        if (effort == SEARCH_TIGHT && depth == STRATEGY_WHOLE && bound->strategy->mesh.extent[MESH_DATA] > 1)
            status = lane_bound(bound, cut->first_unit, seconds, error);
    }
    free(devices);
    free(bytes);
    free(bound->ranks);
    return status;
}

weft_status planner_bound(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                          enum search_effort effort, double *seconds, struct error *error)
{
    struct bound bound = {.planner = planner, .strategy = partial};
    weft_status status = WEFT_OK;
    *seconds = 0;
    if (depth == STRATEGY_ALL || (effort == SEARCH_QUICK && depth > STRATEGY_PASSES))
        return WEFT_OK;
    if (effort == SEARCH_QUICK || depth == STRATEGY_MESH) {
        *seconds = quick_bound(planner, partial, depth, &status, error);
        return status;
    }
    bound.rounds = strategy_rounds(&planner->space, partial);
    status = planner_passes(planner, partial, effort == SEARCH_TIGHT, &bound.table, error);
    if (status == WEFT_OK)
        status = planner_place_of(planner, partial, &bound.place, error);
    if (status != WEFT_OK)
        return status;
    *seconds = passes_bound(planner, partial, bound.table);
    return depth >= STRATEGY_SCHEDULE ? schedule_bound(&bound, depth, effort, seconds, error) : WEFT_OK;
}
