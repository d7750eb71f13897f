/* SPDX-License-Identifier: Apache-2.0 */
/* Whether strategies fit into memory: what they need at least, then exactly as the executor allocates it. */
#include "training/plan/internal/planner_parts.h"

#include "training/train/loop/memory.h"

#include <stdlib.h>

weft_status planner_configure(struct planner *planner, const struct strategy *strategy, struct strategy_words *words,
                              struct train_config *config, struct parallel_choice *choice, struct error *error)
{
    const struct pass_table *table;
    *config = *planner->setting.config;
    config->batch = planner->space.batch;
    config->sequence = planner->space.sequence;
    strategy_configure(strategy, words, config);
    weft_status status =
        parallel_choice_of(config, planner->setting.description, mesh_ranks(&strategy->mesh), choice, error);
    choice->placement = strategy->placement;
    if (status == WEFT_OK)
        status = planner_passes(planner, strategy, &table, error);
    if (status == WEFT_OK)
        status = planner_cut(planner, strategy, table, &choice->first_unit, error);
    if (status == WEFT_OK)
        choice->costs = table->measured;
    return status;
}

/* ---- at least ---- */

/* Bytes of weights, gradients and moments of all ranks, divided by the ranks; without a ZeRO stage, those of stage 3. */
static double state_bytes_of(const struct planner *planner, const struct strategy *partial, uint32_t zero)
{
    const struct model_description *description = planner->setting.description;
    const double data = partial->mesh.extent[MESH_DATA],
                 parts = (double)partial->mesh.extent[MESH_PIPELINE] * partial->mesh.extent[MESH_TENSOR],
                 weights = (double)description->weights * sizeof(float) / parts,
                 trained = (double)(description->weights - description->frozen_weights) * sizeof(float) / parts,
                 moments = optimizer_has_second_moments(planner->setting.config->optimizer.kind) ? 2 : 1;
    return weights / (zero == 3 ? data : 1) + (zero < 2 ? trained : 0) + moments * trained / (zero ? data : 1);
}

static uint64_t memory_of_device(const struct planner *planner)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    uint64_t most = 0;
    for (uint32_t d = 0; d < cluster->device_count; d++)
        if (cluster->devices[d].memory_bytes > most)
            most = cluster->devices[d].memory_bytes;
    return most;
}

static uint64_t excess_at_least(const struct planner *planner, const struct strategy *partial,
                                enum strategy_depth depth)
{
    const struct planner_cluster *cluster = planner->setting.cluster;
    const uint32_t zero = depth >= STRATEGY_SCHEDULE            ? partial->zero
                          : partial->mesh.extent[MESH_DATA] > 1 ? 3
                                                                : 0,
                   ranks = mesh_ranks(&partial->mesh);
    const uint64_t available = cluster->host_memory ? cluster->host_memory : memory_of_device(planner);
    const double needed =
        state_bytes_of(planner, partial, zero) * (cluster->host_memory ? (double)ranks / cluster->hosts : 1);
    return needed > (double)available ? (uint64_t)needed - available : 0;
}

/* ---- exactly ---- */

static uint64_t largest_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Bytes of the rank that needs most, of those at a place in the pipeline; others of the data axis need what the second does. */
static weft_status need_of_place(struct planner *planner, const struct train_config *config,
                                 const struct parallel_choice *choice, uint32_t place, uint64_t *needed,
                                 struct error *error)
{
    const uint32_t ranks = mesh_ranks(&choice->mesh), data = choice->mesh.extent[MESH_DATA];
    const struct memory_ranks all = {.count = ranks, .nodes = planner->setting.cluster->step.hosts};
    weft_status status = WEFT_OK;
    *needed = 0;
    for (uint32_t d = 0; d < 2 && d < data && status == WEFT_OK; d++) {
        const uint32_t point[MESH_AXES] = {[MESH_DATA] = d, [MESH_PIPELINE] = place};
        struct memory_estimate estimate;
        status = memory_estimate_of(config, planner->setting.description, choice, &all, d + place ? 1 : 0, point,
                                    &estimate, error);
        if (status == WEFT_OK)
            *needed = largest_of(*needed, memory_estimate_total(&estimate));
    }
    return status;
}

/* Where devices have memory of their own. With `limits` of each place in the pipeline, ends at the first that is exceeded. */
static weft_status need_of_devices(struct planner *planner, const struct strategy *strategy, const uint64_t *limits,
                                   uint64_t *needed, uint64_t *available, struct error *error)
{
    struct strategy_words words;
    struct train_config config;
    struct parallel_choice choice;
    weft_status status = planner_configure(planner, strategy, &words, &config, &choice, error);
    const uint32_t pipeline = strategy->mesh.extent[MESH_PIPELINE];
    *needed = 0;
    *available = limits[0];
    for (uint32_t i = 0; i < pipeline && status == WEFT_OK; i++) {
        const uint32_t place = i % 2 ? pipeline - (i + 1) / 2 : i / 2; /* the ends need most: they come first */
        uint64_t need;
        status = need_of_place(planner, &config, &choice, place, &need, error);
        if (status == WEFT_OK && need + *available > *needed + limits[place]) {
            *needed = need;
            *available = limits[place];
        }
        if (*needed > *available)
            break;
    }
    return status;
}

static weft_status limits_of_places(struct planner *planner, const struct strategy *strategy, uint64_t *limits,
                                    struct error *error)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    const uint32_t ranks = mesh_ranks(&strategy->mesh), pipeline = strategy->mesh.extent[MESH_PIPELINE];
    uint32_t *points = malloc((size_t)ranks * MESH_AXES * sizeof *points);
    if (!points)
        return error_memory(error, ranks * MESH_AXES * sizeof *points, "the places of ranks");
    for (uint32_t p = 0; p < pipeline; p++)
        limits[p] = UINT64_MAX;
    weft_status status = mesh_place(&strategy->mesh, &strategy->placement, cluster->hosts, points, error);
    for (uint32_t rank = 0; rank < ranks && status == WEFT_OK; rank++) {
        const uint64_t memory = cluster->devices[planner_device_of(planner, rank)].memory_bytes;
        uint64_t *limit = &limits[points[(size_t)rank * MESH_AXES + MESH_PIPELINE]];
        *limit = memory < *limit ? memory : *limit;
    }
    free(points);
    return status;
}

static weft_status memory_by_device(struct planner *planner, const struct strategy *strategy, uint64_t *needed,
                                    uint64_t *available, struct error *error)
{
    uint64_t *limits = calloc(strategy->mesh.extent[MESH_PIPELINE], sizeof *limits);
    if (!limits)
        return error_memory(error, strategy->mesh.extent[MESH_PIPELINE] * sizeof *limits, "the memory of a plan");
    weft_status status = limits_of_places(planner, strategy, limits, error);
    if (status == WEFT_OK)
        status = need_of_devices(planner, strategy, limits, needed, available, error);
    free(limits);
    return status;
}

static weft_status memory_by_host(struct planner *planner, const struct strategy *strategy, uint64_t *needed,
                                  uint64_t *available, struct error *error)
{
    const struct planner_cluster *cluster = planner->setting.cluster;
    const struct memory_ranks ranks = {.count = mesh_ranks(&strategy->mesh), .nodes = cluster->step.hosts};
    struct strategy_words words;
    struct train_config config;
    struct parallel_choice choice;
    uint64_t *needs = calloc(cluster->hosts, sizeof *needs);
    weft_status status = needs ? planner_configure(planner, strategy, &words, &config, &choice, error)
                               : error_memory(error, cluster->hosts * sizeof *needs, "the memory of a plan");
    if (status == WEFT_OK)
        status = memory_needs_of_nodes(&config, planner->setting.description, &choice, &ranks, needs, error);
    *needed = 0;
    *available = cluster->host_memory;
    for (uint32_t host = 0; host < cluster->hosts && status == WEFT_OK; host++)
        *needed = largest_of(*needed, needs[host]);
    free(needs);
    return status;
}

weft_status planner_memory(struct planner *planner, const struct strategy *strategy, uint64_t *needed,
                           uint64_t *available, struct error *error)
{
    return planner->setting.cluster->host_memory ? memory_by_host(planner, strategy, needed, available, error)
                                                 : memory_by_device(planner, strategy, needed, available, error);
}

weft_status planner_excess(void *context, const struct strategy *partial, enum strategy_depth depth, uint64_t *bytes,
                           struct error *error)
{
    struct planner *planner = context;
    /* Of devices that are alike, neither placement nor buckets matter. */
    const bool by_schedule = planner->is_even && !planner->setting.cluster->host_memory;
    *bytes = excess_at_least(planner, partial, depth);
    if (*bytes || depth < STRATEGY_SCHEDULE || (depth == STRATEGY_SCHEDULE) != by_schedule)
        return WEFT_OK;
    struct strategy whole = *partial;
    if (depth == STRATEGY_SCHEDULE) {
        whole.placement = (struct mesh_placement){{MESH_TENSOR, MESH_DATA, MESH_PIPELINE}};
        whole.bucket_bytes = planner->space.buckets[0];
    }
    uint64_t needed, available;
    const weft_status status = planner_memory(planner, &whole, &needed, &available, error);
    if (status == WEFT_OK && needed > available)
        *bytes = needed - available;
    return status;
}
