/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/planner/internal/parts.h"

#include "training/simulate/device_time.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static const uint64_t bucket_sizes[] = {256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};

static void complete_space(struct planner *planner)
{
    struct strategy_space *space = &planner->space;
    const struct planner_setting *setting = &planner->setting;
    *space = setting->space;
    space->description = setting->description;
    space->batch = (uint32_t)setting->config->batch;
    space->sequence = (uint32_t)(setting->config->sequence ? setting->config->sequence
                                                           : (int64_t)setting->description->shape.context);
    space->even_shares = setting->config->sync_batch_norm;
    if (!space->ranks_least)
        space->ranks_least = space->ranks_most = setting->cluster->step.ranks;
    space->hosts_from = setting->cluster->hosts > 1 ? setting->cluster->ranks_per_host + 1 : UINT32_MAX;
    if (!planner->is_even)
        space->hosts_from = 0; /* places differ */
    if (!space->precision_count)
        space->precisions[space->precision_count++] = WEFT_F32;
    if (!space->bucket_count) {
        memcpy(space->buckets, bucket_sizes, sizeof bucket_sizes);
        space->bucket_count = ARRAY_SIZE(bucket_sizes);
    }
}

/* The kinds of devices that are in use. */
static weft_status check_devices(struct planner *planner, struct error *error)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    weft_status status = WEFT_OK;
    planner->is_even = true;
    for (uint32_t rank = 1; rank < cluster->ranks; rank++)
        planner->is_even = planner->is_even && planner_device_of(planner, rank) == planner_device_of(planner, 0);
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        const struct cluster_device *device = &cluster->devices[d];
        const double share = device->product_share > 0 ? device->product_share : DEVICE_PRODUCT_SHARE;
        for (int p = 0; p < CLUSTER_PRECISIONS; p++)
            if (device->flops[p] * share > planner->rates[p])
                planner->rates[p] = device->flops[p] * share;
    }
    for (uint32_t i = 0; i < planner->space.precision_count; i++) {
        const enum cluster_precision precision = step_precision_of(planner->space.precisions[i]);
        if (planner->rates[precision] > planner->rate)
            planner->rate = planner->rates[precision];
        for (uint32_t d = 0; d < cluster->device_count && status == WEFT_OK && !planner->setting.measure; d++)
            status = device_check(&cluster->devices[d], implementation_weft(precision), error);
    }
    return status;
}

/* The largest rates: bursts count as if they lasted. */
static void find_bandwidths(struct planner *planner)
{
    const struct simulated_cluster *links = &planner->setting.cluster->links;
    const double burst = links->burst_bytes > 0 ? links->burst_bandwidth : 0,
                 rates[] = {links->near.bandwidth, links->copy_bandwidth, links->memory_bandwidth};
    planner->host_bandwidth = burst > links->far.bandwidth ? burst : links->far.bandwidth;
    planner->far_bandwidth = planner->host_bandwidth / (links->interfaces > 1 ? links->interfaces : 1);
    planner->near_bandwidth = planner->host_bandwidth;
    for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
        planner->near_bandwidth = rates[i] > planner->near_bandwidth ? rates[i] : planner->near_bandwidth;
}

static weft_status open_tables(struct planner *planner, struct error *error)
{
    const struct model_description *description = planner->setting.description;
    planner->summed = calloc(planner->units, sizeof *planner->summed);
    planner->divided = calloc((size_t)planner->space.ranks_most + 1, sizeof *planner->divided);
    if (!planner->summed || !planner->divided)
        return error_memory(error, planner->space.ranks_most * sizeof *planner->divided, "a planner");
    /* Not those of a tied table, which may be sparse, nor frozen ones. */
    for (size_t u = 0; u < planner->units; u++)
        planner->summed[u] = !description->frozen_weights && !model_layer_uses_tied(description, u);
    return WEFT_OK;
}

weft_status planner_open(const struct planner_setting *setting, struct planner **result, struct error *error)
{
    struct planner *planner = calloc(1, sizeof *planner);
    if (!planner)
        return error_memory(error, sizeof *planner, "a planner");
    planner->setting = *setting;
    planner->units = setting->description->layer_count;
    find_bandwidths(planner);
    planner->is_even = true;
    complete_space(planner);
    weft_status status = check_devices(planner, error);
    if (!planner->is_even)
        planner->space.hosts_from = 0;
    planner->space.speeds_differ = !planner->is_even && !planner->space.even_shares;
    if (status == WEFT_OK)
        status = strategy_space_open(&planner->space, error);
    if (status == WEFT_OK)
        status = open_tables(planner, error);
    if (status == WEFT_OK)
        status = step_prices_open(&setting->cluster->step, &planner->prices, error);
    if (status != WEFT_OK) {
        planner_close(planner);
        return status;
    }
    *result = planner;
    return WEFT_OK;
}

void planner_close(struct planner *planner)
{
    if (!planner)
        return;
    step_prices_close(planner->prices);
    planner_passes_free(planner);
    planner_places_free(planner);
    hash_index_free(&planner->needs, free);
    memory_kept_free(&planner->estimates);
    free(planner->summed);
    strategy_space_close(&planner->space);
    free(planner);
}

const struct strategy_space *planner_space(const struct planner *planner)
{
    return &planner->space;
}

/* ---- prices ---- */

weft_status planner_simulate(struct planner *planner, const struct strategy *strategy, bool keep_times,
                             struct step_costs *costs, struct step_result *result, struct error *error)
{
    const struct step_options options = {.keep_times = keep_times};
    const enum cluster_precision precision = step_precision_of(strategy->precision);
    struct device types = {.type = WEFT_F32, .activations = strategy->precision};
    struct strategy_words words;
    struct train_config config;
    struct parallel_choice choice;
    struct pass_work *layers;
    weft_status status = planner_configure(planner, strategy, &words, &config, &choice, error);
    if (status == WEFT_OK)
        status = planner_work(planner, strategy, &layers, error);
    if (status != WEFT_OK)
        return status;
    struct executor_config executor = parallel_choice_executor(&config, &choice);
    executor.device = &types;
    executor.description = (struct model_description *)(uintptr_t)planner->setting.description; /* it does not change */
    executor.model.sparse_table = executor_wants_sparse_table(&executor);
    const struct step_setting setting = {
        .config = &executor,
        .first_unit = choice.first_unit,
        .precision = precision,
        .cluster = &planner->setting.cluster->step,
        .work = layers->work,
        .measured = (const double(*)[COSTS_PASSES])layers->measured,
    };
    *costs = (struct step_costs){0};
    *result = (struct step_result){0};
    status = step_costs_of(&setting, planner->prices, costs, error);
    if (status != WEFT_OK)
        return status;
    status = step_simulate(costs, &options, result, error);
    if (status != WEFT_OK)
        step_costs_free(costs);
    return status;
}

weft_status planner_price(struct planner *planner, const struct strategy *strategy, struct price *price,
                          struct error *error)
{
    struct step_costs costs;
    struct step_result result;
    weft_status status = planner_simulate(planner, strategy, false, &costs, &result, error);
    if (status != WEFT_OK)
        return status;
    price->seconds = result.seconds;
    memcpy(price->terms, result.terms, sizeof price->terms);
    memcpy(price->bytes, result.bytes, sizeof price->bytes);
    memcpy(price->peak, result.peak, sizeof price->peak);
    step_result_free(&result);
    step_costs_free(&costs);
    return WEFT_OK;
}

weft_status planner_stages(struct planner *planner, const struct strategy *strategy, uint32_t **first_unit,
                           struct error *error)
{
    const size_t count = (size_t)strategy->stages * strategy->mesh.extent[MESH_PIPELINE] + 1;
    const struct stage_cut *cut;
    weft_status status = planner_cut(planner, strategy, &cut, error);
    if (status != WEFT_OK)
        return status;
    *first_unit = malloc(count * sizeof **first_unit);
    if (!*first_unit)
        return error_memory(error, count * sizeof **first_unit, "the stages of a plan");
    memcpy(*first_unit, cut->first_unit, count * sizeof **first_unit);
    return WEFT_OK;
}

weft_status planner_shares(struct planner *planner, const struct strategy *strategy, uint32_t **shares,
                           struct error *error)
{
    const size_t bytes = strategy->mesh.extent[MESH_DATA] * sizeof **shares;
    const struct stage_cut *cut;
    weft_status status = planner_cut(planner, strategy, &cut, error);
    *shares = NULL;
    if (status != WEFT_OK || !cut->shares || !planner_may_share_unevenly(planner, strategy, STRATEGY_WHOLE))
        return status;
    *shares = malloc(bytes);
    if (!*shares)
        return error_memory(error, bytes, "the shares of a plan");
    memcpy(*shares, cut->shares, bytes);
    return WEFT_OK;
}

/* ---- the search ---- */

static weft_status search_bound(void *context, const struct strategy *partial, enum strategy_depth depth,
                                enum search_effort effort, double *seconds, struct error *error)
{
    return planner_bound(context, partial, depth, effort, seconds, error);
}

static weft_status search_price(void *context, const struct strategy *strategy, struct price *price,
                                struct error *error)
{
    return planner_price(context, strategy, price, error);
}

/* Shares by speed that would be worth little are the equal ones, which are another strategy. */
static weft_status search_is_needless(void *context, const struct strategy *strategy, bool *needless,
                                      struct error *error)
{
    const struct stage_cut *cut;
    weft_status status = planner_cut(context, strategy, &cut, error);
    *needless = status == WEFT_OK && strategy->shares_by_speed && !cut->shares;
    return status != WEFT_OK || *needless ? status : planner_recomputes_needlessly(context, strategy, needless, error);
}

weft_status planner_search(struct planner *planner, struct search_result *result, struct error *error)
{
    const struct search_problem problem = {
        .space = &planner->space,
        .context = planner,
        .bound = search_bound,
        .excess = planner_excess,
        .is_needless = search_is_needless,
        .price = search_price,
        .prices_most = planner->setting.prices_most,
        .gap = planner->setting.gap,
    };
    return search_run(&problem, result, error);
}
