/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/strategy.h"

#include "training/parallel/sharding/canonical_runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECOMPUTE_PARTS 4                         /* of the layers: recomputed are one, two, three or all of them */
#define RECOMPUTES      (1 + 2 * RECOMPUTE_PARTS) /* choices, at most */

/* ---- the space ---- */

/* No more ranks than elements of a row. */
static void find_tensor_extents(struct strategy_space *space)
{
    space->tensor_divides[1] = true;
    for (uint32_t tensor = 2; tensor <= space->ranks_most && tensor <= space->description->shape.width; tensor++)
        space->tensor_divides[tensor] = model_check_division(space->description, tensor, NULL) == WEFT_OK;
}

weft_status strategy_space_open(struct strategy_space *space, struct error *error)
{
    const struct model_options options = {.batch = 1, .sequence = space->sequence};
    weft_status status = model_check_options(space->description, &options, error);
    if (status != WEFT_OK)
        return status;
    space->tensor_divides = calloc((size_t)space->ranks_most + 1, sizeof *space->tensor_divides);
    if (!space->tensor_divides)
        return error_memory(error, space->ranks_most, "the strategies");
    find_tensor_extents(space);
    return WEFT_OK;
}

void strategy_space_close(struct strategy_space *space)
{
    free(space->tensor_divides);
    space->tensor_divides = NULL;
}

static weft_status append_strategy(struct strategy_list *list, const struct strategy *strategy, struct error *error)
{
    weft_status status = ARRAY_RESERVE(list->items, list->room, list->count + 1, "the strategies", error);
    if (status == WEFT_OK)
        list->items[list->count++] = *strategy;
    return status;
}

/* ---- meshes ---- */

/* Placements of the axes that have more than one rank; the others follow in the order of the enumeration. The tensor axis,
 * which communicates most, comes first. */
static const struct mesh_placement orders[] = {
    {{MESH_TENSOR, MESH_DATA, MESH_PIPELINE}}, {{MESH_TENSOR, MESH_PIPELINE, MESH_DATA}},
    {{MESH_DATA, MESH_TENSOR, MESH_PIPELINE}}, {{MESH_PIPELINE, MESH_TENSOR, MESH_DATA}},
    {{MESH_DATA, MESH_PIPELINE, MESH_TENSOR}}, {{MESH_PIPELINE, MESH_DATA, MESH_TENSOR}},
};

/* Whether an earlier order puts the axes of more than one rank into the same sequence. */
static bool order_is_new(const struct mesh *mesh, size_t number)
{
    for (size_t earlier = 0; earlier < number; earlier++) {
        unsigned a = 0, b = 0;
        bool same = true;
        while (same && a < MESH_AXES && b < MESH_AXES) {
            if (mesh->extent[orders[earlier].order[a]] == 1)
                a++;
            else if (mesh->extent[orders[number].order[b]] == 1)
                b++;
            else
                same = orders[earlier].order[a++] == orders[number].order[b++];
        }
        if (same)
            return false;
    }
    return true;
}

static bool placement_is_listed(const struct strategy_space *space, const struct mesh *mesh, size_t number)
{
    if (mesh_ranks(mesh) < space->hosts_from)
        return number == 0;
    return order_is_new(mesh, number);
}

/* The placements of a mesh. */
static weft_status expand_placements(const struct strategy_space *space, const struct mesh *mesh,
                                     struct strategy_list *list, struct error *error)
{
    struct strategy strategy = {.mesh = *mesh};
    weft_status status = WEFT_OK;
    for (size_t order = 0; order < ARRAY_SIZE(orders) && status == WEFT_OK; order++) {
        strategy.placement = orders[order];
        if (placement_is_listed(space, mesh, order))
            status = append_strategy(list, &strategy, error);
    }
    return status;
}

/* Whether the data axis divides a global batch of `micro_batches` as it has to. */
static bool batch_divides(const struct strategy_space *space, const struct mesh *mesh, uint32_t micro_batches)
{
    const uint32_t data = mesh->extent[MESH_DATA];
    return data <= micro_batches && (!space->even_shares || micro_batches % data == 0);
}

static weft_status expand_ranks(const struct strategy_space *space, uint32_t ranks, struct strategy_list *list,
                                struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t tensor = 1; tensor <= ranks; tensor++) {
        if (ranks % tensor || !space->tensor_divides[tensor])
            continue;
        for (uint32_t pipeline = 1; pipeline <= ranks / tensor && status == WEFT_OK; pipeline++) {
            const struct mesh mesh = {{ranks / tensor / pipeline, pipeline, tensor}};
            if (ranks / tensor % pipeline == 0 && pipeline <= space->description->layer_count &&
                batch_divides(space, &mesh, space->batch))
                status = expand_placements(space, &mesh, list, error);
        }
    }
    return status;
}

static weft_status expand_all(const struct strategy_space *space, struct strategy_list *list, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t ranks = space->ranks_least; ranks <= space->ranks_most && status == WEFT_OK; ranks++)
        status = expand_ranks(space, ranks, list, error);
    return status;
}

/* ---- passes ---- */

/* A micro-batch may have at most this many tokens: model_open() refuses more. */
#define TOKENS_MOST ((uint64_t)1 << 26)

static bool micro_batch_is_possible(const struct strategy_space *space, const struct mesh *mesh, uint32_t micro_batch)
{
    return space->batch % micro_batch == 0 && batch_divides(space, mesh, space->batch / micro_batch) &&
           (uint64_t)micro_batch * space->sequence <= TOKENS_MOST;
}

static bool rows_divide(const struct strategy_space *space, const struct mesh *mesh, uint32_t micro_batch)
{
    const uint32_t tensor = mesh->extent[MESH_TENSOR];
    return tensor > 1 && (uint64_t)micro_batch * space->sequence % tensor == 0;
}

struct recompute_choice {
    enum model_recompute what;
    uint32_t layers;
};

/* Nothing, then shares of attention and of all layers, without those that are the same. Returns how many. */
static uint32_t list_recomputes(const struct model_description *description, struct recompute_choice list[RECOMPUTES])
{
    uint32_t count = 0;
    list[count++] = (struct recompute_choice){.what = MODEL_RECOMPUTE_NOTHING};
    for (int what = MODEL_RECOMPUTE_ATTENTION; what <= MODEL_RECOMPUTE_ALL; what++) {
        const uint32_t most = model_recompute_most(description, (enum model_recompute)what);
        uint32_t last = 0;
        for (uint32_t part = 1; part < RECOMPUTE_PARTS; part++) {
            const uint32_t layers = (uint32_t)((uint64_t)most * part / RECOMPUTE_PARTS);
            if (layers > last)
                list[count++] = (struct recompute_choice){(enum model_recompute)what, layers};
            last = layers;
        }
        list[count++] = (struct recompute_choice){.what = (enum model_recompute)what};
    }
    return count;
}

static weft_status expand_mesh(const struct strategy_space *space, const struct strategy *partial,
                               struct strategy_list *list, struct error *error)
{
    struct strategy strategy = *partial;
    struct recompute_choice recomputes[RECOMPUTES];
    const uint32_t choices = list_recomputes(space->description, recomputes);
    weft_status status = WEFT_OK;
    for (uint32_t micro_batch = 1; micro_batch <= space->batch; micro_batch++) {
        if (!micro_batch_is_possible(space, &partial->mesh, micro_batch))
            continue;
        strategy.micro_batch = micro_batch;
        const int divides = rows_divide(space, &partial->mesh, micro_batch);
        for (uint32_t precision = 0; precision < space->precision_count; precision++)
            for (uint32_t choice = 0; choice < choices; choice++)
                for (int parallel = 0; parallel <= divides && status == WEFT_OK; parallel++) {
                    strategy.precision = space->precisions[precision];
                    strategy.recompute = recomputes[choice].what;
                    strategy.recompute_layers = recomputes[choice].layers;
                    strategy.sequence_parallel = parallel;
                    status = append_strategy(list, &strategy, error);
                }
    }
    return status;
}

bool strategy_recompute_less(const struct strategy_space *space, const struct strategy *strategy, struct strategy *less)
{
    struct recompute_choice recomputes[RECOMPUTES];
    const uint32_t choices = list_recomputes(space->description, recomputes);
    uint32_t own = 1;
    *less = *strategy;
    if (strategy->recompute == MODEL_RECOMPUTE_NOTHING)
        return false;
    while (own + 1 < choices &&
           (recomputes[own].what != strategy->recompute || recomputes[own].layers != strategy->recompute_layers))
        own++;
    const uint32_t before = recomputes[own - 1].what == strategy->recompute ? own - 1 : 0;
    less->recompute = recomputes[before].what;
    less->recompute_layers = recomputes[before].layers;
    return true;
}

/* ---- schedules ---- */

/* Whether `schedule` can run with so many stages on each rank of the pipeline. */
static bool schedule_is_possible(const struct strategy_space *space, const struct strategy *partial,
                                 enum step_pipeline schedule, uint32_t stages)
{
    const uint32_t pipeline = partial->mesh.extent[MESH_PIPELINE];
    if (pipeline == 1)
        return schedule == STEP_1F1B && stages == 1;
    if (schedule != STEP_INTERLEAVED)
        return stages == 1; /* one stage, interleaved, is 1F1B */
    return stages > 1 && (size_t)stages * pipeline <= space->description->layer_count &&
           strategy_rounds(space, partial) % pipeline == 0;
}

static weft_status expand_passes(const struct strategy_space *space, const struct strategy *partial,
                                 struct strategy_list *list, struct error *error)
{
    struct strategy strategy = *partial;
    weft_status status = WEFT_OK;
    for (int schedule = STEP_GPIPE; schedule < STEP_EVALUATION; schedule++)
        for (uint32_t stages = 1; stages <= STRATEGY_STAGES_MOST && status == WEFT_OK; stages++) {
            strategy.schedule = (enum step_pipeline)schedule;
            strategy.stages = stages;
            if (schedule_is_possible(space, partial, strategy.schedule, stages))
                status = append_strategy(list, &strategy, error);
        }
    return status;
}

/* ---- whole strategies ---- */

uint32_t strategy_zero_most(const struct strategy *partial)
{
    return partial->mesh.extent[MESH_DATA] > 1 ? 3 : 0;
}

/* Buckets beyond the first that holds all gradients of a rank are the same. */
static uint32_t buckets_of(const struct strategy_space *space, const struct strategy *partial)
{
    const struct mesh *mesh = &partial->mesh;
    const struct micro_batch_division division = {.total = strategy_micro_batches(space, partial),
                                                  .ranks = mesh->extent[MESH_DATA]};
    const uint64_t bytes = space->description->elements * sizeof(float) / mesh->extent[MESH_TENSOR];
    uint32_t count = 1;
    if (division.ranks == 1 || partial->zero || !micro_batch_runs_are_subtrees(&division))
        return 1;
    while (count < space->bucket_count && space->buckets[count - 1] < bytes)
        count++;
    return count;
}

static bool may_share_by_speed(const struct strategy_space *space, const struct strategy *partial)
{
    return space->speeds_differ && partial->mesh.extent[MESH_DATA] > 1 && partial->zero < 2 &&
           partial->schedule != STEP_INTERLEAVED;
}

static weft_status expand_schedule(const struct strategy_space *space, const struct strategy *partial,
                                   struct strategy_list *list, struct error *error)
{
    struct strategy strategy = *partial;
    weft_status status = WEFT_OK;
    for (strategy.zero = 0; strategy.zero <= strategy_zero_most(partial); strategy.zero++) {
        const uint32_t buckets = buckets_of(space, &strategy);
        for (uint32_t bucket = 0; bucket < buckets && status == WEFT_OK; bucket++) {
            strategy.bucket_bytes = space->buckets[bucket];
            status = append_strategy(list, &strategy, error);
        }
        struct strategy by_speed = strategy;
        by_speed.bucket_bytes = space->buckets[0]; /* sums are not in place */
        by_speed.shares_by_speed = true;
        if (status == WEFT_OK && may_share_by_speed(space, &strategy))
            status = append_strategy(list, &by_speed, error);
    }
    return status;
}

weft_status strategy_expand(const struct strategy_space *space, const struct strategy *partial,
                            enum strategy_depth depth, struct strategy_list *list, struct error *error)
{
    switch (depth) {
    case STRATEGY_ALL:
        return expand_all(space, list, error);
    case STRATEGY_MESH:
        return expand_mesh(space, partial, list, error);
    case STRATEGY_PASSES:
        return expand_passes(space, partial, list, error);
    case STRATEGY_SCHEDULE:
        return expand_schedule(space, partial, list, error);
    case STRATEGY_WHOLE:
        break;
    }
    return WEFT_OK;
}

/* ---- counting ---- */

static uint64_t count_schedule(const struct strategy_space *space, const struct strategy *partial)
{
    struct strategy strategy = *partial;
    uint64_t count = 0;
    for (strategy.zero = 0; strategy.zero <= strategy_zero_most(partial); strategy.zero++)
        count += buckets_of(space, &strategy) + may_share_by_speed(space, &strategy);
    return count;
}

static uint64_t count_passes(const struct strategy_space *space, const struct strategy *partial)
{
    struct strategy strategy = *partial;
    uint64_t count = 0;
    for (int schedule = STEP_GPIPE; schedule < STEP_EVALUATION; schedule++) {
        uint32_t choices = 0;
        strategy.schedule = (enum step_pipeline)schedule;
        for (uint32_t stages = 1; stages <= STRATEGY_STAGES_MOST; stages++)
            choices += schedule_is_possible(space, partial, strategy.schedule, stages);
        count += choices ? choices * count_schedule(space, &strategy) : 0;
    }
    return count;
}

static uint64_t count_mesh(const struct strategy_space *space, const struct strategy *partial)
{
    struct strategy strategy = *partial;
    struct recompute_choice recomputes[RECOMPUTES];
    const uint32_t choices = list_recomputes(space->description, recomputes);
    uint64_t count = 0;
    for (strategy.micro_batch = 1; strategy.micro_batch <= space->batch; strategy.micro_batch++)
        if (micro_batch_is_possible(space, &partial->mesh, strategy.micro_batch))
            count += count_passes(space, &strategy) * space->precision_count * choices *
                     (rows_divide(space, &partial->mesh, strategy.micro_batch) ? 2 : 1);
    return count;
}

uint64_t strategy_count(const struct strategy_space *space, const struct strategy *partial, enum strategy_depth depth)
{
    struct strategy_list meshes = {0};
    uint64_t count = 0;
    switch (depth) {
    case STRATEGY_ALL:
        if (expand_all(space, &meshes, NULL) == WEFT_OK)
            for (size_t i = 0; i < meshes.count; i++)
                count += count_mesh(space, &meshes.items[i]);
        free(meshes.items);
        return count;
    case STRATEGY_MESH:
        return count_mesh(space, partial);
    case STRATEGY_PASSES:
        return count_passes(space, partial);
    case STRATEGY_SCHEDULE:
        return count_schedule(space, partial);
    case STRATEGY_WHOLE:
        break;
    }
    return 1;
}

/* ---- order and text ---- */

int strategy_compare(const struct strategy *a, const struct strategy *b)
{
    const int64_t differences[] = {
        (int64_t)mesh_ranks(&a->mesh) - mesh_ranks(&b->mesh),
        (int64_t)a->mesh.extent[MESH_PIPELINE] - b->mesh.extent[MESH_PIPELINE],
        (int64_t)a->mesh.extent[MESH_TENSOR] - b->mesh.extent[MESH_TENSOR],
        (int64_t)a->recompute - (int64_t)b->recompute,
        (int64_t)(a->recompute_layers ? a->recompute_layers : UINT32_MAX) -
            (b->recompute_layers ? b->recompute_layers : UINT32_MAX),
        (int64_t)(a->precision != WEFT_F32) - (b->precision != WEFT_F32),
        (int64_t)a->zero - b->zero,
        (int64_t)b->micro_batch - a->micro_batch,
        (int64_t)a->shares_by_speed - b->shares_by_speed,
        (int64_t)a->sequence_parallel - b->sequence_parallel,
        (int64_t)(a->schedule != STEP_1F1B) - (b->schedule != STEP_1F1B),
        (int64_t)a->schedule - (int64_t)b->schedule,
        (int64_t)a->stages - b->stages,
        (int64_t)a->precision - (int64_t)b->precision,
        (int64_t)a->bucket_bytes - (int64_t)b->bucket_bytes,
        (int64_t)a->placement.order[0] - (int64_t)b->placement.order[0],
        (int64_t)a->placement.order[1] - (int64_t)b->placement.order[1],
    };
    for (size_t i = 0; i < ARRAY_SIZE(differences); i++)
        if (differences[i])
            return differences[i] < 0 ? -1 : 1;
    return 0;
}

static int describe_pipeline(const struct strategy *strategy, char *text, size_t size)
{
    if (strategy->mesh.extent[MESH_PIPELINE] == 1)
        return 0;
    if (strategy->stages == 1)
        return snprintf(text, size, "; %s", step_pipeline_name(strategy->schedule));
    return snprintf(text, size, "; %s, %u stages a rank", step_pipeline_name(strategy->schedule), strategy->stages);
}

const char *strategy_describe(const struct strategy *strategy, char text[STRATEGY_TEXT_BYTES])
{
    char mesh[MESH_TEXT_BYTES];
    int used = snprintf(text, STRATEGY_TEXT_BYTES, "%s", mesh_print(&strategy->mesh, mesh));
    if (strategy->zero)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, "; ZeRO-%u", strategy->zero);
    used += describe_pipeline(strategy, text + used, STRATEGY_TEXT_BYTES - (size_t)used);
    used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, "; micro-batches of %u%s%s",
                     strategy->micro_batch, strategy->shares_by_speed ? ", shared by speed" : "",
                     strategy->sequence_parallel ? "; sequence parallel" : "");
    if (strategy->recompute)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, "; recompute %s",
                         model_recompute_names[strategy->recompute]);
    if (strategy->recompute_layers)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " in %u layers", strategy->recompute_layers);
    snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, "; %s", weft_type_name(strategy->precision));
    return text;
}

static bool placement_is_a_choice(const struct mesh *mesh)
{
    unsigned axes = 0;
    for (unsigned axis = 0; axis < MESH_AXES; axis++)
        axes += mesh->extent[axis] > 1;
    return axes > 1;
}

const char *strategy_options(const struct strategy *strategy, char text[STRATEGY_TEXT_BYTES])
{
    char mesh[MESH_TEXT_BYTES], placement[MESH_TEXT_BYTES];
    const struct mesh *axes = &strategy->mesh;
    int used = snprintf(text, STRATEGY_TEXT_BYTES, "--mesh %s --micro-batch %u", mesh_print(axes, mesh),
                        strategy->micro_batch);
    if (strategy->zero)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --zero %u", strategy->zero);
    if (axes->extent[MESH_PIPELINE] > 1)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --pipeline-schedule %s",
                         step_pipeline_name(strategy->schedule));
    if (strategy->stages > 1)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --stages-per-rank %u", strategy->stages);
    if (placement_is_a_choice(axes))
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --placement %s",
                         mesh_placement_print(&strategy->placement, placement));
    if (strategy->sequence_parallel)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --sequence-parallel");
    if (strategy->recompute)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --recompute %s",
                         model_recompute_names[strategy->recompute]);
    if (strategy->recompute_layers)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --recompute-layers %u",
                         strategy->recompute_layers);
    if (axes->extent[MESH_DATA] > 1 && strategy->zero < 2)
        used += snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --bucket %" PRIu64 "K",
                         strategy->bucket_bytes >> 10);
    if (strategy->precision != WEFT_F32)
        snprintf(text + used, STRATEGY_TEXT_BYTES - (size_t)used, " --precision %s",
                 weft_type_name(strategy->precision));
    return text;
}

/* ---- as a run ---- */

void strategy_configure(const struct strategy *strategy, struct strategy_words *words, struct train_config *config)
{
    config->mesh = mesh_print(&strategy->mesh, words->mesh);
    config->placement = mesh_placement_print(&strategy->placement, words->placement);
    config->micro_batch = strategy->micro_batch;
    config->recompute = strategy->recompute;
    config->recompute_layers = strategy->recompute_layers;
    config->activations = strategy->precision;
    config->sequence_parallel = strategy->sequence_parallel;
    config->zero = strategy->zero;
    config->schedule = strategy->schedule;
    config->stages = strategy->stages;
    config->bucket_bytes = strategy->bucket_bytes;
    config->parameter_server = false;
    config->first_unit = NULL;
    config->shares = NULL;
}
