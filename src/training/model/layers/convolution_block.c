/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

/* ---- memory ---- */

struct block_arrays {
    void *input;           /* as activations; NULL: the rows or pixels are that already */
    unsigned char *places; /* of the max pool */
    struct convolution_kept units[BLOCK_UNITS_MOST], shortcut;
};

struct block_deferred {
    struct convolution_deferred units[BLOCK_UNITS_MOST], shortcut;
};

struct block_scratch {
    void *pooled;                 /* where the max pool goes when it is recomputed */
    void *shortcut;               /* its output, of the device's type */
    void *gradient, *of_shortcut; /* of the input, activations; in the memory of `shortcut`, which is used before */
};

static size_t block_input_width(const struct convolution_block *block)
{
    const struct convolution *first = &block->units[0].shape;
    return first->height * first->width * first->inputs;
}

static size_t block_output_width(const struct convolution_block *block)
{
    const struct max_pool *pool = &block->pool;
    return block->pools ? window_count(pool->height, pool->kernel, pool->stride, pool->padding) *
                              window_count(pool->width, pool->kernel, pool->stride, pool->padding) * pool->channels
                        : convolution_unit_width(&block->units[block->count - 1]);
}

static const struct convolution_unit *block_last(const struct convolution_block *block)
{
    return &block->units[block->count - 1];
}

static void block_plan(const struct convolution_block *block, const struct layer_room *room, struct arena *arena,
                       struct block_arrays *arrays)
{
    const size_t entering = block->kind == BLOCK_STEM ? sizeof(float) : room->element;
    *arrays = (struct block_arrays){0};
    if (room->activation != entering)
        arrays->input = arena_take(arena, room->batch * block_input_width(block) * room->activation);
    for (size_t i = 0; i < block->count; i++)
        convolution_unit_plan(&block->units[i], room, arena, &arrays->units[i]);
    if (block->adds_shortcut)
        convolution_unit_plan(&block->shortcut, room, arena, &arrays->shortcut);
    if (block->pools && room->training)
        arrays->places = arena_take(arena, room->batch * block_output_width(block));
}

static void block_plan_deferred(const struct convolution_block *block, const struct layer_room *room,
                                struct arena *arena, struct block_deferred *deferred)
{
    *deferred = (struct block_deferred){0};
    for (size_t i = 0; room->training && i < block->count; i++)
        convolution_unit_plan_deferred(&block->units[i], room, arena, &deferred->units[i]);
    if (room->training && block->adds_shortcut)
        convolution_unit_plan_deferred(&block->shortcut, room, arena, &deferred->shortcut);
}

static void block_plan_scratch(const struct convolution_block *block, const struct layer_room *room,
                               struct arena *arena, struct block_scratch *scratch)
{
    const size_t input = room->batch * block_input_width(block) * room->activation;
    struct arena before = *arena;
    *scratch = (struct block_scratch){0};
    if (room->training && block->pools)
        scratch->pooled = arena_take(arena, room->batch * block_output_width(block) * room->element);
    if (!room->training || block->kind == BLOCK_STEM)
        return;
    if (block->adds_shortcut)
        scratch->shortcut = arena_take(&before, room->batch * convolution_unit_width(&block->shortcut) * room->element);
    scratch->gradient = arena_take(arena, input);
    if (block->adds_shortcut)
        scratch->of_shortcut = arena_take(arena, input);
    if (before.used > arena->used)
        arena->used = before.used;
}

static struct block_arrays block_arrays_of(const struct convolution_block *block, const struct pass *pass,
                                           const struct layer_places *places)
{
    struct block_arrays arrays;
    const struct layer_room room = pass_room(pass);
    block_plan(block, &room, &(struct arena){.base = places->kept}, &arrays);
    return arrays;
}

static struct block_deferred block_deferred_of(const struct convolution_block *block, const struct pass *pass,
                                               const struct layer_places *places)
{
    struct block_deferred deferred;
    const struct layer_room room = pass_room(pass);
    block_plan_deferred(block, &room, &(struct arena){.base = places->deferred}, &deferred);
    return deferred;
}

static struct block_scratch block_scratch_of(const struct convolution_block *block, const struct pass *pass,
                                             const struct layer_places *places)
{
    struct block_scratch scratch;
    const struct layer_room room = pass_room(pass);
    block_plan_scratch(block, &room, &(struct arena){.base = places->scratch}, &scratch);
    return scratch;
}

static struct layer_memory block_memory(const struct layer *layer, const struct layer_room *room)
{
    struct block_arrays arrays;
    struct block_deferred gradients;
    struct block_scratch places;
    struct arena kept = {0}, deferred = {0}, scratch = {0};
    block_plan(layer->settings, room, &kept, &arrays);
    block_plan_deferred(layer->settings, room, &deferred, &gradients);
    block_plan_scratch(layer->settings, room, &scratch, &places);
    return (struct layer_memory){.kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
}

/* ---- passes ---- */

/* The input as activations, which `enter` says to write where it is not that already. */
static const void *block_input(const struct convolution_block *block, const struct pass *pass,
                               const struct block_arrays *arrays, const void *x, bool enter)
{
    struct device *device = pass->device;
    const size_t count = pass->batch * block_input_width(block);
    if (!arrays->input)
        return block->kind == BLOCK_STEM ? pass->pixels : x;
    if (enter && block->kind == BLOCK_STEM)
        device->pixels_to_activations(device, count, pass->pixels, arrays->input);
    else if (enter)
        device->to_activations(device, count, x, arrays->input);
    return arrays->input;
}

static struct max_pool block_pool(const struct convolution_block *block, const struct pass *pass)
{
    struct max_pool pool = block->pool;
    pool.batch = pass->batch;
    return pool;
}

/* What is added to the last batch norm's output; the shortcut's is written to `to`. */
static const void *block_addend(const struct convolution_block *block, const struct pass *pass,
                                const struct block_arrays *arrays, const void *x, void *to)
{
    if (!block->adds_shortcut)
        return block->adds_input ? x : NULL;
    const struct batch_norm norm = convolution_unit_norm(pass, &block->shortcut, &arrays->shortcut, NULL);
    pass->device->batch_norm_forward(pass->device, &norm, convolution_unit_rows(pass, &block->shortcut),
                                     arrays->shortcut.y, NULL, to);
    return to;
}

static void block_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                          const void *x, void *y)
{
    const struct convolution_block *block = layer->settings;
    const struct block_arrays arrays = block_arrays_of(block, pass, places);
    struct device *device = pass->device;
    const void *input = block_input(block, pass, &arrays, x, true);
    struct batch_norm norm;
    for (size_t i = 0; i < block->count; i++) {
        convolution_unit_forward(pass, &block->units[i], &arrays.units[i], i ? arrays.units[i - 1].y : input,
                                 i ? &norm : NULL);
        norm = convolution_unit_norm(pass, &block->units[i], &arrays.units[i], NULL);
    }
    if (block->adds_shortcut)
        convolution_unit_forward(pass, &block->shortcut, &arrays.shortcut, input, NULL);
    const void *last = arrays.units[block->count - 1].y;
    if (block->pools) {
        const struct max_pool pool = block_pool(block, pass);
        void *out = y ? y : block_scratch_of(block, pass, places).pooled;
        device->max_pool_forward(device, &pool, last, &norm, out, pass->prepare ? arrays.places : NULL);
    } else if (y) {
        device->batch_norm_forward(device, &norm, convolution_unit_rows(pass, block_last(block)), last,
                                   block_addend(block, pass, &arrays, x, y), y);
    }
}

/* From the gradient of the block's output to the slopes of the last batch norm and of the shortcut's. `gradient` becomes
 * that of what is added. */
static void block_leave(const struct convolution_block *block, const struct pass *pass,
                        const struct block_arrays *arrays, const struct block_deferred *deferred,
                        const struct block_scratch *scratch, const void *x, void *gradient)
{
    struct device *device = pass->device;
    const size_t last = block->count - 1, rows = convolution_unit_rows(pass, &block->units[last]);
    const struct batch_norm norm =
        convolution_unit_norm(pass, &block->units[last], &arrays->units[last], &deferred->units[last]);
    if (block->pools) {
        const struct max_pool pool = block_pool(block, pass);
        device->max_pool_backward(device, &pool, gradient, arrays->places, arrays->units[last].y, &norm,
                                  deferred->units[last].slope);
        convolution_unit_share_gradients(pass, &block->units[last], &deferred->units[last]);
        return;
    }
    device->batch_norm_backward(device, &norm, rows, arrays->units[last].y,
                                block_addend(block, pass, arrays, x, scratch->shortcut), gradient,
                                deferred->units[last].slope);
    convolution_unit_share_gradients(pass, &block->units[last], &deferred->units[last]);
    if (!block->adds_shortcut)
        return;
    const struct batch_norm shortcut =
        convolution_unit_norm(pass, &block->shortcut, &arrays->shortcut, &deferred->shortcut);
    device->batch_norm_backward(device, &shortcut, rows, arrays->shortcut.y, NULL, gradient, deferred->shortcut.slope);
    convolution_unit_share_gradients(pass, &block->shortcut, &deferred->shortcut);
}

/* From the first slopes to the gradient of the input; `gradient` is that of what is added. */
static void block_enter(const struct convolution_block *block, const struct pass *pass,
                        const struct block_arrays *arrays, const struct block_deferred *deferred,
                        const struct block_scratch *scratch, void *gradient)
{
    struct device *device = pass->device;
    const size_t count = pass->batch * block_input_width(block);
    const bool alone = !block->adds_input && device->activations == device->type;
    void *own = alone ? gradient : scratch->gradient;
    convolution_unit_backward_input(pass, &block->units[0], &arrays->units[0], &deferred->units[0], NULL, NULL, own);
    if (!block->adds_input && !alone)
        device->from_activations(device, count, own, gradient);
    if (block->adds_input)
        device->add_branch(device, count, gradient, own, gradient);
    if (!block->adds_shortcut)
        return;
    convolution_unit_backward_input(pass, &block->shortcut, &arrays->shortcut, &deferred->shortcut, NULL, NULL,
                                    scratch->of_shortcut);
    device->add_branch(device, count, gradient, scratch->of_shortcut, gradient);
}

static void block_backward_input(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                                 const void *x, void *gradient)
{
    const struct convolution_block *block = layer->settings;
    const struct block_arrays arrays = block_arrays_of(block, pass, places);
    const struct block_deferred deferred = block_deferred_of(block, pass, places);
    const struct block_scratch scratch = block_scratch_of(block, pass, places);
    block_leave(block, pass, &arrays, &deferred, &scratch, x, gradient);
    for (size_t i = block->count - 1; i > 0; i--) {
        const struct batch_norm before =
            convolution_unit_norm(pass, &block->units[i - 1], &arrays.units[i - 1], &deferred.units[i - 1]);
        convolution_unit_backward_input(pass, &block->units[i], &arrays.units[i], &deferred.units[i],
                                        arrays.units[i - 1].y, &before, deferred.units[i - 1].slope);
        convolution_unit_share_gradients(pass, &block->units[i - 1], &deferred.units[i - 1]);
    }
    if (block->kind != BLOCK_STEM)
        block_enter(block, pass, &arrays, &deferred, &scratch, gradient);
    for (size_t i = 0; i < block->count; i++)
        convolution_unit_compare_statistics(pass, &block->units[i], &arrays.units[i], &deferred.units[i]);
    if (block->adds_shortcut)
        convolution_unit_compare_statistics(pass, &block->shortcut, &arrays.shortcut, &deferred.shortcut);
}

static void block_backward_weights(const struct layer *layer, const struct pass *pass,
                                   const struct layer_places *places)
{
    const struct convolution_block *block = layer->settings;
    const struct block_arrays arrays = block_arrays_of(block, pass, places);
    const struct block_deferred deferred = block_deferred_of(block, pass, places);
    const void *input = block_input(block, pass, &arrays, pass->x, false);
    for (size_t i = 0; i < block->count; i++) {
        struct batch_norm before;
        if (i)
            before = convolution_unit_norm(pass, &block->units[i - 1], &arrays.units[i - 1], &deferred.units[i - 1]);
        convolution_unit_backward_weights(pass, &block->units[i], &arrays.units[i], &deferred.units[i],
                                          i ? arrays.units[i - 1].y : input, i ? &before : NULL);
    }
    if (block->adds_shortcut)
        convolution_unit_backward_weights(pass, &block->shortcut, &arrays.shortcut, &deferred.shortcut, input, NULL);
}

/* ---- the layer ---- */

static double block_flops(const struct layer *layer, size_t sequence)
{
    const struct convolution_block *block = layer->settings;
    double flops = block->adds_shortcut ? convolution_unit_flops(&block->shortcut) : 0;
    for (size_t i = 0; i < block->count; i++)
        flops += convolution_unit_flops(&block->units[i]);
    return flops;
}

static bool block_is_alike(const void *settings, const void *others)
{
    const struct convolution_block *a = settings, *b = others;
    if (a->kind != b->kind || a->count != b->count || a->adds_input != b->adds_input ||
        a->adds_shortcut != b->adds_shortcut || a->pools != b->pools)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!convolution_units_are_alike(&a->units[i], &b->units[i]))
            return false;
    return !a->adds_shortcut || convolution_units_are_alike(&a->shortcut, &b->shortcut);
}

#define BLOCK_KIND(said)                                                                                               \
    {                                                                                                                  \
        .name = said, .memory = block_memory, .is_alike = block_is_alike, .flops = block_flops,                        \
        .forward = block_forward, .backward_input = block_backward_input, .backward_weights = block_backward_weights   \
    }

static const struct layer_kind block_kinds[] = {
    [BLOCK_STEM] = BLOCK_KIND("stem"),
    [BLOCK_SEPARABLE] = BLOCK_KIND("separable"),
    [BLOCK_INVERTED] = BLOCK_KIND("inverted"),
    [BLOCK_BASIC] = BLOCK_KIND("basic"),
    [BLOCK_BOTTLENECK] = BLOCK_KIND("bottleneck"),
};

weft_status convolution_block_add(struct model_description *description, const struct convolution_block *block,
                                  const struct convolution_block_names *names, struct error *error)
{
    void *place;
    weft_status status = description_add_layer(description, &block_kinds[block->kind], block_output_width(block), block,
                                               sizeof *block, &place, error, "%s", names->layer);
    if (status != WEFT_OK)
        return status;
    struct convolution_block *own = place;
    for (size_t i = 0; status == WEFT_OK && i < own->count; i++)
        status = convolution_unit_add(description, &own->units[i], &names->units[i], error);
    if (status == WEFT_OK && own->adds_shortcut)
        status = convolution_unit_add(description, &own->shortcut, &names->shortcut, error);
    return status;
}
