/* SPDX-License-Identifier: Apache-2.0 */
/* Whether strategies fit into memory: what they need at least, then exactly as the executor allocates it. */
#include "training/plan/planner/internal/parts.h"

#include "base/hash.h"
#include "training/parallel/sharding/canonical_runs.h"
#include "training/tensor/kernel_set.h"
#include "training/train/loop/memory.h"

#include <stdlib.h>

weft_status planner_configure(struct planner *planner, const struct strategy *strategy, struct strategy_words *words,
                              struct train_config *config, struct parallel_choice *choice, struct error *error)
{
    struct pass_work *work;
    *config = *planner->setting.config;
    config->batch = planner->space.batch;
    config->sequence = planner->space.sequence;
    strategy_configure(strategy, words, config);
    /* As parallel_choice_of() would, whose checks the space of strategies has made. */
    *choice = (struct parallel_choice){.mesh = strategy->mesh,
                                       .placement = strategy->placement,
                                       .schedule = strategy->schedule,
                                       .stages = strategy->stages * strategy->mesh.extent[MESH_PIPELINE],
                                       .zero = strategy->zero,
                                       .micro_batches = strategy_micro_batches(&planner->space, strategy)};
    weft_status status = planner_work(planner, strategy, &work, error);
    const struct stage_cut *cut;
    if (status == WEFT_OK)
        status = planner_cut(planner, strategy, &cut, error);
    if (status != WEFT_OK)
        return status;
    choice->first_unit = cut->first_unit;
    choice->shares = planner_may_share_unevenly(planner, strategy, STRATEGY_WHOLE) ? cut->shares : NULL;
    choice->costs = work->costs;
    return WEFT_OK;
}

/* ---- at least ---- */

static double planner_moments(const struct planner *planner)
{
    return optimizer_has_second_moments(planner->setting.config->optimizer.kind) ? 2 : 1;
}

/* Bytes of weights, their 16-bit copy, gradients, partial sums and moments of `elements` on a rank, as
 * training/parallel/execute/memory.h has them. Partial sums count where the micro-batch is known. */
static double state_bytes_of(const struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                             uint32_t zero, double elements)
{
    const struct model_description *description = planner->setting.description;
    const double data = partial->mesh.extent[MESH_DATA],
                 trained = elements * (1 - (double)description->frozen_weights / (double)description->weights);
    double values = elements * sizeof(float), sums = 0;
    if (depth >= STRATEGY_PASSES) {
        values += partial->precision == WEFT_F32 ? 0 : elements * sizeof(uint16_t);
        sums = zero >= 2 ? canonical_stack_room(0, strategy_micro_batches(&planner->space, partial)) / data
               : planner_may_share_unevenly(planner, partial, depth)
                   ? 0
                   : canonical_stack_room(0, strategy_rounds(&planner->space, partial) - 1);
    }
    return values / (zero == 3 ? data : 1) +
           trained * sizeof(float) * ((zero < 2 ? 1 : 0) + sums + planner_moments(planner) / (zero ? data : 1));
}

/* The same of a rank that has an even share of the network, by the ZeRO stage that needs least where none is chosen. */
static double least_state_of(const struct planner *planner, const struct strategy *partial, enum strategy_depth depth)
{
    const double elements = (double)planner->setting.description->weights /
                            ((double)partial->mesh.extent[MESH_PIPELINE] * partial->mesh.extent[MESH_TENSOR]);
    double least = 0;
    if (depth == STRATEGY_WHOLE)
        return state_bytes_of(planner, partial, depth, partial->zero, elements);
    for (uint32_t zero = 0; zero <= strategy_zero_most(partial); zero++) {
        const double bytes = state_bytes_of(planner, partial, depth, zero, elements);
        least = zero == 0 || bytes < least ? bytes : least;
    }
    return least;
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
    const uint64_t available = cluster->host_memory ? cluster->host_memory : memory_of_device(planner);
    const double ranks = cluster->host_memory ? (double)mesh_ranks(&partial->mesh) / cluster->hosts : 1,
                 needed = ranks * least_state_of(planner, partial, depth);
    return needed > (double)available ? (uint64_t)needed - available : 0;
}

/* Bytes that state and the activations that are kept at a time need on the first pipeline rank, at least. */
static weft_status need_of_schedule(struct planner *planner, const struct strategy *strategy, double *bytes,
                                    struct error *error)
{
    const uint32_t pipeline = strategy->mesh.extent[MESH_PIPELINE];
    struct pass_work *work;
    const struct stage_cut *cut;
    weft_status status = planner_work(planner, strategy, &work, error);
    if (status == WEFT_OK)
        status = planner_cut(planner, strategy, &cut, error);
    if (status != WEFT_OK)
        return status;
    const bool unevenly = planner_may_share_unevenly(planner, strategy, STRATEGY_WHOLE);
    const struct step_shape shape = {.order = strategy->schedule,
                                     .pipeline = pipeline,
                                     .stages = strategy->stages * pipeline,
                                     .first_unit = cut->first_unit,
                                     .micro_batches = unevenly ? 1 : strategy_rounds(&planner->space, strategy)};
    double elements = 0, kept = 0;
    for (uint32_t stage = 0; stage < shape.stages; stage += pipeline)
        for (uint32_t u = cut->first_unit[stage]; u < cut->first_unit[stage + 1]; u++) {
            elements += work->elements[u];
            kept += work->kept[u];
        }
    *bytes = state_bytes_of(planner, strategy, STRATEGY_WHOLE, strategy->zero, elements) +
             kept / strategy->stages * step_slots_bound(&shape, 0);
    return WEFT_OK;
}

/* ---- exactly ---- */

static uint64_t largest_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* On other machines than this one, bf16 is taken to be multiplied as it is. */
static struct memory_ranks planner_ranks(struct planner *planner, uint32_t ranks)
{
    return (struct memory_ranks){.count = ranks,
                                 .nodes = planner->setting.cluster->step.hosts,
                                 .casts_bf16 = planner->setting.measure &&
                                               kernel_set_casts(WEFT_BF16, kernel_set_best(WEFT_BF16)),
                                 .kept = &planner->estimates};
}

/* Bytes of the rank that needs most, of those at a place in the pipeline: only data ranks that others are like are looked at. */
static weft_status need_of_place(struct planner *planner, const struct train_config *config,
                                 const struct parallel_choice *choice, const uint32_t *alike, uint32_t place,
                                 uint64_t *needed, struct error *error)
{
    const uint32_t ranks = mesh_ranks(&choice->mesh);
    const struct memory_ranks all = planner_ranks(planner, ranks);
    weft_status status = WEFT_OK;
    *needed = 0;
    for (uint32_t d = 0; d < choice->mesh.extent[MESH_DATA] && status == WEFT_OK; d++) {
        const uint32_t point[MESH_AXES] = {[MESH_DATA] = d, [MESH_PIPELINE] = place};
        struct memory_estimate estimate;
        if (alike[d] < d)
            continue;
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
    const uint32_t pipeline = strategy->mesh.extent[MESH_PIPELINE], data = strategy->mesh.extent[MESH_DATA];
    uint32_t *alike = malloc(data * sizeof *alike);
    weft_status status = alike ? planner_configure(planner, strategy, &words, &config, &choice, error)
                               : error_memory(error, data * sizeof *alike, "the memory of a plan");
    if (status == WEFT_OK)
        memory_alike_data_ranks(&choice, alike);
    *needed = 0;
    *available = limits[0];
    for (uint32_t i = 0; i < pipeline && status == WEFT_OK; i++) {
        const uint32_t place = i % 2 ? pipeline - (i + 1) / 2 : i / 2; /* the ends need most: they come first */
        uint64_t need;
        status = need_of_place(planner, &config, &choice, alike, place, &need, error);
        if (status == WEFT_OK && need + *available > *needed + limits[place]) {
            *needed = need;
            *available = limits[place];
        }
        if (*needed > *available)
            break;
    }
    free(alike);
    return status;
}

static weft_status limits_of_places(struct planner *planner, const struct strategy *strategy, uint64_t *limits,
                                    struct error *error)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    const uint32_t ranks = mesh_ranks(&strategy->mesh), pipeline = strategy->mesh.extent[MESH_PIPELINE];
    for (uint32_t p = 0; p < pipeline; p++)
        limits[p] = planner->is_even ? cluster->devices[planner_device_of(planner, 0)].memory_bytes : UINT64_MAX;
    if (planner->is_even)
        return WEFT_OK;
    uint32_t *points = malloc((size_t)ranks * MESH_AXES * sizeof *points);
    if (!points)
        return error_memory(error, ranks * MESH_AXES * sizeof *points, "the places of ranks");
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
    const struct memory_ranks ranks = planner_ranks(planner, mesh_ranks(&strategy->mesh));
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

/* Where devices are alike, neither placement nor buckets matter: the need of the same strategy with another is kept. */
static weft_status exact_need(struct planner *planner, const struct strategy *strategy, uint64_t *needed,
                              uint64_t *available, struct error *error)
{
    const uint32_t key[] = {strategy->mesh.extent[MESH_DATA], strategy->mesh.extent[MESH_PIPELINE],
                            (uint32_t)strategy->schedule, strategy->stages, strategy->zero};
    const uint64_t hash = hash_bytes(key, sizeof key, planner_work_key(planner, strategy));
    uint64_t *kept = planner->is_even ? hash_index_find(&planner->needs, hash) : NULL;
    if (kept) {
        *needed = kept[0];
        *available = kept[1];
        return WEFT_OK;
    }
    weft_status status = planner_memory(planner, strategy, needed, available, error);
    if (status != WEFT_OK || !planner->is_even)
        return status;
    if (!(kept = malloc(2 * sizeof *kept)))
        return error_memory(error, 2 * sizeof *kept, "the memory of a plan");
    kept[0] = *needed;
    kept[1] = *available;
    status = hash_index_add(&planner->needs, hash, kept, error);
    if (status != WEFT_OK)
        free(kept);
    return status;
}

weft_status planner_recomputes_needlessly(struct planner *planner, const struct strategy *strategy, bool *needless,
                                          struct error *error)
{
    struct strategy less;
    uint64_t needed = 0, available = 0;
    *needless = false;
    if (!strategy_recompute_less(&planner->space, strategy, &less))
        return WEFT_OK;
    const weft_status status = exact_need(planner, &less, &needed, &available, error);
    *needless = status == WEFT_OK && needed <= available;
    return status;
}

weft_status planner_excess(void *context, const struct strategy *partial, enum strategy_depth depth, bool exact,
                           uint64_t *bytes, struct error *error)
{
    struct planner *planner = context;
    uint64_t needed = 0, available = 0;
    weft_status status = WEFT_OK;
    if (exact) {
        status = exact_need(planner, partial, &needed, &available, error);
        *bytes = status == WEFT_OK && needed > available ? needed - available : 0;
        return status;
    }
    *bytes = excess_at_least(planner, partial, depth);
    if (*bytes || depth < STRATEGY_WHOLE || planner->setting.cluster->host_memory)
        return WEFT_OK;
    double least;
    status = need_of_schedule(planner, partial, &least, error);
    if (status == WEFT_OK && least > (double)memory_of_device(planner))
        *bytes = (uint64_t)least - memory_of_device(planner);
    return status;
}
