/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

/* A row of activations for each token. */
struct feed_forward_arrays {
    struct norm_kept norm;
    void *hidden; /* up, or gate and up */
    void *active; /* hidden */
};

static size_t hidden_row(const struct feed_forward *feed_forward)
{
    return (feed_forward->gated ? 2 : 1) * feed_forward->hidden;
}

static void feed_forward_plan(const struct feed_forward *feed_forward, const struct layer_room *room,
                              struct arena *kept, struct feed_forward_arrays *arrays)
{
    const size_t column = room->batch * room->sequence * room->activation;
    norm_plan(&feed_forward->norm, room, kept, &arrays->norm);
    arrays->hidden = arena_take(kept, column * hidden_row(feed_forward));
    arrays->active = arena_take(kept, column * feed_forward->hidden);
}

/* The arrays of one call. */
struct feed_forward_scratch {
    void *branch;    /* width; forward only */
    void *to_norm;   /* the same memory, backward */
    void *to_active; /* with a gate; otherwise the deferred to_hidden */
};

/* From the input pass to the weights pass: gradients of the outputs of the products. */
struct feed_forward_deferred {
    void *to_branch; /* width */
    void *to_hidden;
    void *up_bias; /* its gradient; NULL: none */
    struct norm_sums norm;
};

static void feed_forward_plan_scratch(const struct feed_forward *feed_forward, const struct layer_room *room,
                                      struct arena *arena, struct feed_forward_scratch *scratch)
{
    const size_t column = room->batch * room->sequence * room->activation;
    scratch->branch = scratch->to_norm = arena_take(arena, column * feed_forward->norm.width);
    scratch->to_active =
        room->training && feed_forward->gated ? arena_take(arena, column * feed_forward->hidden) : NULL;
}

static void feed_forward_plan_deferred(const struct feed_forward *feed_forward, const struct layer_room *room,
                                       struct arena *arena, struct feed_forward_deferred *deferred)
{
    const size_t column = room->batch * room->sequence * room->activation;
    if (!room->training)
        return;
    deferred->to_branch = arena_take(arena, column * feed_forward->norm.width);
    deferred->to_hidden = arena_take(arena, column * hidden_row(feed_forward));
    deferred->up_bias =
        feed_forward->up.bias == NO_PARAMETER ? NULL : arena_take(arena, feed_forward->hidden * room->element);
    norm_plan_sums(&feed_forward->norm, room, arena, &deferred->norm);
}

static struct feed_forward_scratch feed_forward_scratch_of(const struct feed_forward *feed_forward,
                                                           const struct pass *pass, const struct layer_places *places)
{
    struct feed_forward_scratch scratch;
    const struct layer_room room = pass_room(pass);
    feed_forward_plan_scratch(feed_forward, &room, &(struct arena){.base = places->scratch}, &scratch);
    return scratch;
}

static struct feed_forward_deferred feed_forward_deferred_of(const struct feed_forward *feed_forward,
                                                             const struct pass *pass, const struct layer_places *places)
{
    struct feed_forward_deferred deferred = {0};
    const struct layer_room room = pass_room(pass);
    feed_forward_plan_deferred(feed_forward, &room, &(struct arena){.base = places->deferred}, &deferred);
    return deferred;
}

static struct feed_forward_arrays feed_forward_arrays_of(const struct feed_forward *feed_forward,
                                                         const struct pass *pass, const struct layer_places *places)
{
    struct feed_forward_arrays arrays;
    const struct layer_room room = pass_room(pass);
    feed_forward_plan(feed_forward, &room, &(struct arena){.base = places->kept}, &arrays);
    return arrays;
}

static struct layer_memory feed_forward_memory(const struct layer *layer, const struct layer_room *room)
{
    const struct feed_forward *feed_forward = layer->settings;
    struct feed_forward_arrays arrays;
    struct feed_forward_scratch places;
    struct feed_forward_deferred gradients;
    struct arena kept = {0}, deferred = {0}, scratch = {0};
    feed_forward_plan(feed_forward, room, &kept, &arrays);
    feed_forward_plan_deferred(feed_forward, room, &deferred, &gradients);
    feed_forward_plan_scratch(feed_forward, room, &scratch, &places);
    return (struct layer_memory){.kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
}

static void feed_forward_divide(void *settings, size_t ranks, size_t rank)
{
    struct feed_forward *feed_forward = settings;
    feed_forward->hidden /= ranks;
    linear_divide(&feed_forward->gate, ranks, rank);
    linear_divide(&feed_forward->up, ranks, rank);
    linear_divide(&feed_forward->down, ranks, rank);
}

static bool feed_forward_is_alike(const void *settings, const void *others)
{
    const struct feed_forward *a = settings, *b = others;
    return a->by_erf == b->by_erf && norms_are_alike(&a->norm, &b->norm) && a->hidden == b->hidden &&
           a->gated == b->gated && linears_are_alike(&a->gate, &b->gate) && linears_are_alike(&a->up, &b->up) &&
           linears_are_alike(&a->down, &b->down);
}

static double feed_forward_flops(const struct layer *layer, size_t sequence)
{
    const struct feed_forward *feed_forward = layer->settings;
    return 2 * (double)(layer->width * (hidden_row(feed_forward) + feed_forward->hidden));
}

static void feed_forward_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                                 const void *x, void *y)
{
    const struct feed_forward *feed_forward = layer->settings;
    const struct feed_forward_arrays arrays = feed_forward_arrays_of(feed_forward, pass, places);
    struct device *device = pass->device;
    const size_t rows = pass_rows(pass), hidden = feed_forward->hidden;
    branch_enter(pass, &feed_forward->norm, x, &arrays.norm);
    if (feed_forward->gated) {
        linear_forward(pass, &feed_forward->gate, arrays.norm.out, arrays.hidden, 2 * hidden);
        linear_forward(pass, &feed_forward->up, arrays.norm.out, pass_activation_at(pass, arrays.hidden, hidden),
                       2 * hidden);
        device->swiglu_forward(device, rows, hidden, arrays.hidden, arrays.active);
    } else {
        linear_forward(pass, &feed_forward->up, arrays.norm.out, arrays.hidden, 0);
        if (feed_forward->by_erf)
            device->gelu_erf_forward(device, rows * hidden, arrays.hidden, arrays.active);
        else
            device->gelu_forward(device, rows * hidden, arrays.hidden, arrays.active);
    }
    if (!y && !feed_forward->norm.after)
        return;
    void *branch = feed_forward_scratch_of(feed_forward, pass, places).branch;
    linear_forward(pass, &feed_forward->down, arrays.active, branch, 0);
    branch_leave(pass, layer, &feed_forward->norm, x, branch, &arrays.norm, y);
}

static void feed_forward_backward_input(const struct layer *layer, const struct pass *pass,
                                        const struct layer_places *places, const void *x, void *gradient)
{
    const struct feed_forward *feed_forward = layer->settings;
    const struct feed_forward_arrays arrays = feed_forward_arrays_of(feed_forward, pass, places);
    const struct feed_forward_scratch scratch = feed_forward_scratch_of(feed_forward, pass, places);
    const struct feed_forward_deferred deferred = feed_forward_deferred_of(feed_forward, pass, places);
    struct device *device = pass->device;
    const size_t rows = pass_rows(pass), hidden = feed_forward->hidden;
    void *to_active = feed_forward->gated ? scratch.to_active : deferred.to_hidden;

    branch_begin_backward(pass, layer, &feed_forward->norm, &arrays.norm, gradient, deferred.to_branch, &deferred.norm);
    linear_backward_input(pass, &feed_forward->down, deferred.to_branch, 0, false, to_active);
    if (feed_forward->gated) {
        device->swiglu_backward(device, rows, hidden, arrays.hidden, to_active, deferred.to_hidden);
        linear_backward_input(pass, &feed_forward->gate, deferred.to_hidden, 2 * hidden, false, scratch.to_norm);
        linear_backward_input(pass, &feed_forward->up, pass_activation_at(pass, deferred.to_hidden, hidden), 2 * hidden,
                              true, scratch.to_norm);
    } else {
        if (feed_forward->by_erf)
            device->gelu_erf_backward(device, rows, hidden, arrays.hidden, deferred.to_hidden, deferred.up_bias);
        else
            device->gelu_backward(device, rows, hidden, arrays.hidden, deferred.to_hidden, deferred.up_bias);
        linear_backward_input(pass, &feed_forward->up, deferred.to_hidden, 0, false, scratch.to_norm);
    }
    branch_end_backward(pass, &feed_forward->norm, &arrays.norm, x, scratch.to_norm, gradient, &deferred.norm);
}

static void feed_forward_backward_weights(const struct layer *layer, const struct pass *pass,
                                          const struct layer_places *places)
{
    const struct feed_forward *feed_forward = layer->settings;
    const struct feed_forward_arrays arrays = feed_forward_arrays_of(feed_forward, pass, places);
    const struct feed_forward_deferred deferred = feed_forward_deferred_of(feed_forward, pass, places);
    const size_t hidden = feed_forward->hidden;

    linear_backward_weights(pass, &feed_forward->down, arrays.active, deferred.to_branch, 0);
    if (feed_forward->gated) {
        linear_backward_weights(pass, &feed_forward->gate, arrays.norm.out, deferred.to_hidden, 2 * hidden);
        linear_backward_weights(pass, &feed_forward->up, arrays.norm.out,
                                pass_activation_at(pass, deferred.to_hidden, hidden), 2 * hidden);
    } else {
        gradient_store(pass, feed_forward->up.bias, hidden, deferred.up_bias);
        linear_backward_weight(pass, &feed_forward->up, arrays.norm.out, deferred.to_hidden, 0);
    }
    norm_backward_weights(pass, &feed_forward->norm, &deferred.norm);
}

static const struct layer_kind feed_forward_kind = {
    .name = "feed-forward",
    .memory = feed_forward_memory,
    .divide = feed_forward_divide,
    .is_alike = feed_forward_is_alike,
    .flops = feed_forward_flops,
    .forward = feed_forward_forward,
    .backward_input = feed_forward_backward_input,
    .backward_weights = feed_forward_backward_weights,
};

weft_status feed_forward_add(struct model_description *description, const struct feed_forward *feed_forward,
                             const struct feed_forward_names *names, bool outputs_first, double deviation,
                             double down_deviation, struct error *error)
{
    void *place;
    weft_status status = description_add_layer(description, &feed_forward_kind, feed_forward->norm.width, feed_forward,
                                               sizeof *feed_forward, &place, error, "%sfeed-forward", names->prefix);
    if (status != WEFT_OK)
        return status;
    struct feed_forward *own = place;
    const size_t width = own->norm.width;
    own->gated = names->gate != NULL;
    own->gate = own->up = (struct linear){.inputs = width, .outputs = own->hidden, .outputs_first = outputs_first};
    own->down = (struct linear){
        .inputs = own->hidden, .outputs = width, .outputs_first = outputs_first, .inputs_divided = true};
    if (!own->norm.after)
        status = norm_add(description, &own->norm, names->prefix, names->norm_gain, names->norm_bias, error);
    if (status == WEFT_OK)
        status = linear_add(description, &own->gate, deviation, names->prefix, names->gate, NULL, error);
    if (status == WEFT_OK)
        status = linear_add(description, &own->up, deviation, names->prefix, names->up, names->up_bias, error);
    if (status == WEFT_OK)
        status =
            linear_add(description, &own->down, down_deviation, names->prefix, names->down, names->down_bias, error);
    if (status == WEFT_OK && own->norm.after)
        status = norm_add(description, &own->norm, names->prefix, names->norm_gain, names->norm_bias, error);
    return status;
}
