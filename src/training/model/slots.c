/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a model. Each slot has what is kept of one micro-batch:
 *
 *     what is read of it, losses, and of a sparse gradient the row of each token
 *     of each layer of a run: the rows that enter, what it keeps, and with `split` what it defers
 *
 * Runs of layers lie at the same place, as a slot serves one at a time. Layers that keep nothing share memory among
 * themselves and among slots, and so do scratch and, without `split`, what is deferred.
 */
#include "training/model/internal/model_parts.h"

#include <stdlib.h>

static bool recompute_means(const struct model_description *description, enum model_recompute recompute, size_t i)
{
    return i + 1 < description->layer_count &&
           (recompute == MODEL_RECOMPUTE_ALL ||
            (recompute == MODEL_RECOMPUTE_ATTENTION && description->layers[i].kind->is_attention));
}

/* Those before `layer`. */
static uint64_t recomputable_before(const struct model_description *description, enum model_recompute recompute,
                                    size_t layer)
{
    uint64_t count = 0;
    for (size_t i = 0; i < layer; i++)
        count += recompute_means(description, recompute, i);
    return count;
}

uint32_t model_recompute_most(const struct model_description *description, enum model_recompute recompute)
{
    return (uint32_t)recomputable_before(description, recompute, description->layer_count);
}

bool model_recomputes_layer(const struct model_description *description, enum model_recompute recompute, uint32_t count,
                            size_t layer)
{
    if (!count || !recompute_means(description, recompute, layer))
        return recompute_means(description, recompute, layer);
    const uint64_t most = model_recompute_most(description, recompute),
                   place = recomputable_before(description, recompute, layer);
    return count >= most || (place + 1) * count / most > place * count / most;
}

bool model_layer_is_recomputed(const struct model *model, size_t i)
{
    return model_recomputes_layer(model->description, model->options.recompute, model->options.recompute_layers, i);
}

bool layer_is_passed_over(const struct model_description *description, size_t i)
{
    const struct layer *layer = &description->layers[i];
    return layer->parameter + layer->parameter_count <= description->first_trainable;
}

/* Whether a slot has memory for what the layer keeps: it has a backward pass, which does not recompute it. */
static bool slot_keeps(const struct model *model, size_t i)
{
    return model->options.training && !model_layer_is_recomputed(model, i) &&
           !layer_is_passed_over(model->description, i);
}

/* Whether a slot has memory for what the layer's input pass leaves to its weights pass. */
static bool slot_defers(const struct model *model, size_t i)
{
    return model->options.training && model->options.split && !layer_is_passed_over(model->description, i);
}

static size_t model_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The rows that enter layer `i`, number `place` of a run. Outside of training two buffers are used in turn. */
static void *slot_plan_rows(const struct model *model, const struct layer_room *room, const struct slot_layer *layers,
                            size_t i, size_t place, struct arena *arena)
{
    const struct model_description *description = model->description;
    const size_t row = room->batch * room->sequence / (room->divides_rows ? room->ranks : 1) * room->element;
    if (place == 0)
        return NULL;
    if (model->options.training)
        return arena_take(arena, row * description->layers[i - 1].width);
    return place < 3 ? arena_take(arena, row * description->widest) : layers[i - 2].x;
}

/* *shared is raised to what the layers need of shared memory. */
static void plan_slot(const struct model *model, const struct layer_room *room, struct model_slot *slot,
                      struct layer_memory *shared, struct arena *arena)
{
    const struct model_description *description = model->description;
    const size_t rows = room->batch * room->sequence;
    for (enum model_input input = 0; input < MODEL_INPUTS; input++)
        if (model_reads_input(description, model->options.layers, &model->inputs, input))
            slot->inputs.of[input] = arena_take(arena, model_input_bytes(&model->inputs, input, room->batch));
    slot->losses = arena_take(arena, model_loss_count(model, room) * sizeof *slot->losses);
    if (model_has_sparse_table(model))
        slot->table_rows = arena_take(arena, rows * sizeof *slot->table_rows);
    const size_t begin = arena->used;
    size_t end = begin, place = 0; /* of the layer in its run */
    for (size_t i = 0; i < description->layer_count; i++) {
        struct slot_layer *layer = &slot->layers[i];
        if (!model_runs_layer(model, i)) {
            place = 0;
            continue;
        }
        if (place == 0)
            arena->used = begin;
        const struct layer_memory memory = description->layers[i].kind->memory(&description->layers[i], room);
        layer->x = slot_plan_rows(model, room, slot->layers, i, place++, arena);
        if (slot_keeps(model, i))
            layer->places.kept = arena_take(arena, memory.kept);
        else
            shared->kept = model_larger(shared->kept, memory.kept);
        if (slot_defers(model, i))
            layer->places.deferred = arena_take(arena, memory.deferred);
        shared->scratch = model_larger(shared->scratch, memory.scratch + (slot_defers(model, i) ? 0 : memory.deferred));
        end = model_larger(end, arena->used);
    }
    arena->used = end;
}

/* Layer `i` in all slots: memory of its own, and its share of what is shared. */
static void plan_shared(const struct model *model, const struct layer_room *room, size_t i, void *kept, void *scratch,
                        struct arena *arena)
{
    const struct layer *layer = &model->description->layers[i];
    const struct layer_memory memory = layer->kind->memory(layer, room);
    void *own = arena_take(arena, memory.own);
    for (size_t s = 0; s < model_slot_count(model); s++) {
        struct layer_places *places = &model->slots[s].layers[i].places;
        places->own = own;
        places->scratch = scratch;
        if (!slot_keeps(model, i))
            places->kept = kept;
        if (!slot_defers(model, i))
            places->deferred = scratch ? (char *)scratch + memory.scratch : NULL;
    }
}

size_t model_loss_count(const struct model *model, const struct layer_room *room)
{
    const struct layer *last = &model->description->layers[model->description->layer_count - 1];
    return last->kind->loss_count ? last->kind->loss_count(last, room) : room->batch * room->sequence;
}

struct layer_room model_room(const struct model *model, weft_type type, weft_type activations)
{
    const struct model_options *options = &model->options;
    return (struct layer_room){.element = weft_type_size(type),
                               .activation = weft_type_size(activations),
                               .batch = options->batch,
                               .sequence = options->sequence,
                               .ranks = model->description->tensor_ranks,
                               .divides_rows = options->tensor && options->tensor->divides_rows,
                               .synchronizes_norms = options->norms != NULL,
                               .training = options->training};
}

size_t model_plan_memory(struct model *model, weft_type type, weft_type activations, struct arena *arena)
{
    const struct model_description *description = model->description;
    const struct model_options *options = &model->options;
    const struct layer_room room = model_room(model, type, activations);
    const size_t slots = model_slot_count(model), begin = arena->used;
    struct layer_memory shared = {0};
    for (size_t s = 0; s < slots; s++)
        plan_slot(model, &room, &model->slots[s], &shared, arena);
    const size_t slot = (arena->used - begin) / slots;
    void *kept = arena_take(arena, shared.kept), *scratch = arena_take(arena, shared.scratch);
    for (size_t i = 0; i < description->layer_count; i++)
        if (model_runs_layer(model, i))
            plan_shared(model, &room, i, kept, scratch, arena);
    if (!options->training)
        model->logits = arena_take(arena, model_logit_count(model) * room.activation);
    if (options->slots)
        return slot;
    if (options->training)
        model->gradient = arena_take(arena, room.batch * room.sequence * description->widest * room.element);
    if (activations != type)
        model->as_activations = arena_take(arena, description->elements * room.activation);
    return slot;
}

weft_status model_lists_open(struct model *model, struct error *error)
{
    const size_t layers = model->description->layer_count, slots = model_slot_count(model);
    model->slots = calloc(slots, sizeof *model->slots);
    model->slot_layers = calloc(slots, layers * sizeof *model->slot_layers);
    if (!model->slots || !model->slot_layers)
        return error_memory(error, slots * layers * sizeof *model->slot_layers, "a model's list of layers");
    const size_t tokens = model->options.batch * model->options.sequence;
    if (model_has_sparse_table(model)) {
        model->distinct = calloc(slots, tokens * sizeof *model->distinct);
        if (!model->distinct)
            return error_memory(error, slots * tokens * sizeof *model->distinct, "the rows of a sparse gradient");
    }
    for (size_t s = 0; s < slots; s++) {
        model->slots[s].layers = model->slot_layers + s * layers;
        model->slots[s].distinct = model->distinct ? model->distinct + s * tokens : NULL;
    }
    return WEFT_OK;
}

void model_lists_close(struct model *model)
{
    free(model->slots);
    free(model->slot_layers);
    free(model->distinct);
}

size_t model_memory(const struct model_description *description, weft_type type, weft_type activations,
                    const struct model_options *options)
{
    struct model model = {
        .description = description, .options = *options, .inputs = model_inputs_of(description, options->sequence)};
    struct arena arena = {0};
    const size_t slots = model_slot_count(&model);
    model.options.slots = options->slots ? 1 : 0; /* slots are alike: one is planned */
    size_t slot = 0;
    if (model_lists_open(&model, NULL) == WEFT_OK)
        slot = model_plan_memory(&model, type, activations, &arena);
    model_lists_close(&model);
    return arena.used + (slots - 1) * slot;
}
