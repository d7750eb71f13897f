/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

/* The pooler's arrays, and the rows of all ranks where they are divided: in the forward pass those of x, in the backward
 * pass their gradients. */
struct class_head_arrays {
    struct pooler_arrays pooler;
    void *all;
};

static void class_head_plan(const struct pooler *pooler, const struct layer_room *room, struct arena *kept,
                            struct arena *deferred, struct arena *scratch, struct class_head_arrays *arrays)
{
    const size_t bytes = room->batch * room->sequence * pooler->width * room->element;
    pooler_plan(pooler, room, kept, deferred, scratch, &arrays->pooler);
    arrays->all = room->divides_rows ? arena_take(scratch, bytes) : NULL;
}

static struct class_head_arrays class_head_arrays_of(const struct pooler *pooler, const struct pass *pass,
                                                     const struct layer_places *places)
{
    struct class_head_arrays arrays;
    const struct layer_room room = pass_room(pass);
    class_head_plan(pooler, &room, &(struct arena){.base = places->kept}, &(struct arena){.base = places->deferred},
                    &(struct arena){.base = places->scratch}, &arrays);
    return arrays;
}

static struct layer_memory class_head_memory(const struct layer *layer, const struct layer_room *room)
{
    struct class_head_arrays arrays;
    struct arena kept = {0}, deferred = {0}, scratch = {0};
    class_head_plan(layer->settings, room, &kept, &deferred, &scratch, &arrays);
    return (struct layer_memory){.kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
}

static void class_head_divide(void *settings, size_t ranks, size_t rank)
{
}

static double class_head_flops(const struct layer *layer, size_t sequence)
{
    return pooler_flops(layer->settings) / (double)sequence;
}

static size_t class_head_loss_count(const struct layer *layer, const struct layer_room *room)
{
    return pooler_loss_count(room->batch);
}

static double class_head_loss(const struct layer *layer, const struct pass *pass, const double *losses)
{
    return pooler_loss(losses, pass->batch);
}

static double class_head_accuracy(const struct layer *layer, const struct pass *pass, const double *losses)
{
    return pooler_accuracy(losses, pass->batch);
}

static void class_head_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                               const void *x, void *y)
{
    const struct pooler *pooler = layer->settings;
    const struct class_head_arrays arrays = class_head_arrays_of(pooler, pass, places);
    const void *rows = pass_all_rows(pass, pooler->width, x, arrays.all);
    pooler_forward(pooler, pass, layer, &arrays.pooler, rows, pass->labels ? NULL : y);
    if (pass->labels)
        pooler_losses(pooler, pass, &arrays.pooler, pass->losses);
}

static void class_head_backward_input(const struct layer *layer, const struct pass *pass,
                                      const struct layer_places *places, const void *x, void *gradient)
{
    const struct pooler *pooler = layer->settings;
    const struct class_head_arrays arrays = class_head_arrays_of(pooler, pass, places);
    struct device *device = pass->device;
    void *all = arrays.all ? arrays.all : gradient;
    device->fill(device, pass_rows(pass) * pooler->width, 0, all);
    pooler_backward_input(pooler, pass, layer, &arrays.pooler, all);
    pass_own_gradient(pass, pooler->width, all, gradient);
}

static void class_head_backward_weights(const struct layer *layer, const struct pass *pass,
                                        const struct layer_places *places)
{
    const struct class_head_arrays arrays = class_head_arrays_of(layer->settings, pass, places);
    pooler_backward_weights(layer->settings, pass, &arrays.pooler);
}

static const struct layer_kind class_head_kind = {
    .name = "head",
    .memory = class_head_memory,
    .divide = class_head_divide,
    .flops = class_head_flops,
    .loss_count = class_head_loss_count,
    .loss = class_head_loss,
    .accuracy = class_head_accuracy,
    .forward = class_head_forward,
    .backward_input = class_head_backward_input,
    .backward_weights = class_head_backward_weights,
};

weft_status class_head_add(struct model_description *description, const struct pooler *pooler, double deviation,
                           const struct pooler_names *names, struct error *error)
{
    void *place;
    weft_status status =
        description_add_layer(description, &class_head_kind, 0, pooler, sizeof *pooler, &place, error, "head");
    if (status == WEFT_OK)
        status = pooler_add_dense(description, place, deviation, names, error);
    if (status == WEFT_OK)
        status = pooler_add_classifier(description, place, deviation, names, error);
    return status;
}
