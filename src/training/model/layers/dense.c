/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

/*
 * The product with the concatenated rows of a window is a sum of products, one for each place in the window: the rows
 * that lie `back` rows before, times the part of the weight for that place. So no row is copied.
 */
static size_t dense_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/*
 * A row of activations for each token. Outside of training the norms' rows live as long as the model: an extended
 * sequence looks back to them.
 */
struct dense_arrays {
    struct norm_kept norm;
    void *hidden; /* before GELU */
};

static void dense_plan(const struct dense *dense, const struct layer_room *room, struct arena *own, struct arena *kept,
                       struct dense_arrays *arrays)
{
    norm_plan(&dense->norm, room, room->training ? kept : own, &arrays->norm);
    arrays->hidden = arena_take(kept, room->batch * room->sequence * dense->linear.outputs * room->activation);
}

/* The arrays of one call. */
struct dense_scratch {
    void *sum;    /* of products, of the device's type */
    void *active; /* after GELU; in the memory of `sum`, which is used before */
    void *to_norm;
    void *gathered; /* on a tensor axis, of the device's type: all columns of all rows */
};

/* From the input pass to the weights pass. */
struct dense_deferred {
    void *to_hidden;
    void *bias; /* its gradient */
    struct norm_sums norm;
};

static void dense_plan_scratch(const struct dense *dense, const struct layer_room *room, struct arena *arena,
                               struct dense_scratch *scratch)
{
    const size_t rows = room->batch * room->sequence, widest = dense_larger(dense->linear.outputs, dense->norm.width);
    scratch->sum = scratch->active = arena_take(arena, rows * widest * room->element);
    scratch->gathered =
        room->ranks > 1 ? arena_take(arena, rows * dense->linear.outputs * room->ranks * room->element) : NULL;
    scratch->to_norm = room->training ? arena_take(arena, rows * dense->norm.width * room->activation) : NULL;
}

static void dense_plan_deferred(const struct dense *dense, const struct layer_room *room, struct arena *arena,
                                struct dense_deferred *deferred)
{
    if (!room->training)
        return;
    deferred->to_hidden = arena_take(arena, room->batch * room->sequence * dense->linear.outputs * room->activation);
    deferred->bias = arena_take(arena, dense->linear.outputs * room->element);
    norm_plan_sums(&dense->norm, room, arena, &deferred->norm);
}

static struct dense_arrays dense_arrays_of(const struct dense *dense, const struct pass *pass,
                                           const struct layer_places *places)
{
    struct dense_arrays arrays;
    const struct layer_room room = pass_room(pass);
    dense_plan(dense, &room, &(struct arena){.base = places->own}, &(struct arena){.base = places->kept}, &arrays);
    return arrays;
}

static struct dense_scratch dense_scratch_of(const struct dense *dense, const struct pass *pass,
                                             const struct layer_places *places)
{
    struct dense_scratch scratch;
    const struct layer_room room = pass_room(pass);
    dense_plan_scratch(dense, &room, &(struct arena){.base = places->scratch}, &scratch);
    return scratch;
}

static struct dense_deferred dense_deferred_of(const struct dense *dense, const struct pass *pass,
                                               const struct layer_places *places)
{
    struct dense_deferred deferred = {0};
    const struct layer_room room = pass_room(pass);
    dense_plan_deferred(dense, &room, &(struct arena){.base = places->deferred}, &deferred);
    return deferred;
}

static struct layer_memory dense_memory(const struct layer *layer, const struct layer_room *room)
{
    struct dense_arrays arrays;
    struct dense_scratch places;
    struct dense_deferred gradients;
    struct arena own = {0}, kept = {0}, deferred = {0}, scratch = {0};
    dense_plan(layer->settings, room, &own, &kept, &arrays);
    dense_plan_deferred(layer->settings, room, &deferred, &gradients);
    dense_plan_scratch(layer->settings, room, &scratch, &places);
    return (struct layer_memory){
        .own = own.used, .kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
}

static void dense_divide(void *settings, size_t ranks, size_t rank)
{
    struct dense *dense = settings;
    linear_divide(&dense->linear, ranks, rank);
}

static bool dense_is_alike(const void *settings, const void *others)
{
    const struct dense *a = settings, *b = others;
    return norms_are_alike(&a->norm, &b->norm) && a->window == b->window && linears_are_alike(&a->linear, &b->linear);
}

static double dense_flops(const struct layer *layer, size_t sequence)
{
    const struct dense *dense = layer->settings;
    return 2 * (double)dense->linear.inputs * (double)dense->linear.outputs;
}

/* A run of rows of one pass with the rows `back` before them. */
struct run {
    size_t rows;
    size_t out; /* the first row that looks back, counted from the first of the pass */
    size_t in;  /* the first row that is looked at, counted from the first of the room */
};

/* How many runs there are for `back`: rows that look at themselves are one, whatever the sequences. */
static size_t runs_of(const struct pass *pass, size_t back)
{
    return back ? pass->batch : 1;
}

static struct run run_of(const struct pass *pass, size_t back, size_t number)
{
    const size_t end = pass->first + pass->sequence, begin = dense_larger(pass->first, back);
    if (!back)
        return (struct run){.rows = pass_rows(pass), .in = pass->first};
    return (struct run){.rows = begin < end ? end - begin : 0,
                        .out = number * pass->sequence + begin - pass->first,
                        .in = number * pass->sequence + begin - back};
}

/* The first element of the part of the weight for the rows `back` before: the last rows of a window are its newest. */
static size_t part_of_weight(const struct dense *dense, size_t back)
{
    return (dense->window - 1 - back) * dense->norm.width * dense->linear.outputs;
}

/* y = the columns of all ranks, side by side, of this rank's rows: `active` is its columns of all rows. */
static void dense_gather(const struct dense *dense, const struct pass *pass, const struct dense_scratch *scratch,
                         void *y)
{
    const struct tensor_group *tensor = pass->tensor;
    struct device *device = pass->device;
    const size_t rows = pass_rows(pass), out = dense->linear.outputs, count = rows * out;
    device->from_activations(device, count, scratch->active, pass_at(pass, scratch->gathered, tensor->rank * count));
    tensor->gather(tensor->context, count * weft_type_size(device->type), scratch->gathered);
    for (size_t r = 0; r < tensor->ranks; r++)
        device->copy_columns(device, pass_own_rows(pass), out,
                             pass_at(pass, scratch->gathered, r * count + pass_own_first(pass) * out), out,
                             pass_at(pass, y, r * out), tensor->ranks * out);
}

static void dense_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                          const void *x, void *y)
{
    const struct dense *dense = layer->settings;
    const struct dense_arrays arrays = dense_arrays_of(dense, pass, places);
    const struct dense_scratch scratch = dense_scratch_of(dense, pass, places);
    struct device *device = pass->device;
    const size_t in = dense->norm.width, out = dense->linear.outputs, count = pass_rows(pass) * out;
    const void *weight = pass_weight(pass, dense->linear.weight);
    struct norm_kept norm = arrays.norm;
    norm.out = pass_activation_at(pass, norm.out, pass->first * in);
    norm_forward(pass, &dense->norm, x, &norm);
    for (size_t back = 0; back < dense->window; back++)
        for (size_t i = 0; i < runs_of(pass, back); i++) {
            const struct run run = run_of(pass, back, i);
            if (run.rows)
                device->matmul(device,
                               &(struct matmul){.rows = run.rows,
                                                .columns = out,
                                                .inner = in,
                                                .a = pass_activation_at(pass, arrays.norm.out, run.in * in),
                                                .b = pass_activation_at(pass, weight, part_of_weight(dense, back)),
                                                .bias = back ? NULL : pass_parameter(pass, dense->linear.bias),
                                                .c = pass_at(pass, scratch.sum, run.out * out),
                                                .wide = true,
                                                .accumulate = back > 0});
        }
    device->to_activations(device, count, scratch.sum, arrays.hidden);
    if (!y)
        return;
    device->gelu_forward(device, count, arrays.hidden, scratch.active);
    if (pass->tensor) {
        dense_gather(dense, pass, &scratch, y);
        return;
    }
    device->fill(device, count, 0, y);
    device->add_branch(device, count, y, scratch.active, y);
}

/* This rank's columns of all rows of the gradient of y, in scratch->sum. */
static const void *dense_own_columns(const struct layer *layer, const struct pass *pass,
                                     const struct dense_scratch *scratch, const void *gradient)
{
    const struct dense *dense = layer->settings;
    struct device *device = pass->device;
    const size_t width = layer->width, out = dense->linear.outputs;
    if (pass_divides_rows(pass)) {
        device->copy(device, pass_at(pass, scratch->gathered, pass_own_first(pass) * width), gradient,
                     pass_own_rows(pass) * width * weft_type_size(device->type));
        pass_gather_rows(pass, device->type, width, scratch->gathered);
        gradient = scratch->gathered;
    }
    device->copy_columns(device, pass_rows(pass), out, pass_at(pass, gradient, pass->tensor->rank * out), width,
                         scratch->sum, out);
    return scratch->sum;
}

static void dense_backward_input(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                                 const void *x, void *gradient)
{
    const struct dense *dense = layer->settings;
    const struct dense_arrays arrays = dense_arrays_of(dense, pass, places);
    const struct dense_scratch scratch = dense_scratch_of(dense, pass, places);
    const struct dense_deferred deferred = dense_deferred_of(dense, pass, places);
    struct device *device = pass->device;
    const size_t in = dense->norm.width, out = dense->linear.outputs, rows = pass_rows(pass);
    const void *weight = pass_weight(pass, dense->linear.weight);
    const void *own = pass->tensor ? dense_own_columns(layer, pass, &scratch, gradient) : gradient;
    device->to_activations(device, rows * out, own, deferred.to_hidden);
    device->gelu_backward(device, rows, out, arrays.hidden, deferred.to_hidden, deferred.bias);
    for (size_t back = 0; back < dense->window && back < pass->sequence; back++)
        for (size_t i = 0; i < runs_of(pass, back); i++) {
            const struct run run = run_of(pass, back, i);
            device->matmul(device, &(struct matmul){.rows = run.rows,
                                                    .columns = in,
                                                    .inner = out,
                                                    .transpose_b = true,
                                                    .a = pass_activation_at(pass, deferred.to_hidden, run.out * out),
                                                    .b = pass_activation_at(pass, weight, part_of_weight(dense, back)),
                                                    .c = pass_at(pass, scratch.sum, run.in * in),
                                                    .wide = true,
                                                    .accumulate = back > 0});
        }
    device->to_activations(device, rows * in, scratch.sum, scratch.to_norm);
    norm_backward_input(pass, &dense->norm, &arrays.norm, x, scratch.to_norm, false, gradient, &deferred.norm);
}

static void dense_backward_weights(const struct layer *layer, const struct pass *pass,
                                   const struct layer_places *places)
{
    const struct dense *dense = layer->settings;
    const struct dense_arrays arrays = dense_arrays_of(dense, pass, places);
    const struct dense_deferred deferred = dense_deferred_of(dense, pass, places);
    struct device *device = pass->device;
    const size_t in = dense->norm.width, out = dense->linear.outputs;
    for (size_t back = 0; back < dense->window; back++) {
        void *to_weight = pass_at(pass, pass_gradient(pass, dense->linear.weight), part_of_weight(dense, back));
        if (back >= pass->sequence) /* nothing lies that far back */
            device->fill(device, in * out, 0, to_weight);
        for (size_t i = 0; i < runs_of(pass, back) && back < pass->sequence; i++) {
            const struct run run = run_of(pass, back, i);
            device->matmul(device, &(struct matmul){.rows = in,
                                                    .columns = out,
                                                    .inner = run.rows,
                                                    .transpose_a = true,
                                                    .a = pass_activation_at(pass, arrays.norm.out, run.in * in),
                                                    .b = pass_activation_at(pass, deferred.to_hidden, run.out * out),
                                                    .c = to_weight,
                                                    .wide = true,
                                                    .accumulate = i > 0});
        }
    }
    gradient_store(pass, dense->linear.bias, out, deferred.bias);
    norm_backward_weights(pass, &dense->norm, &deferred.norm);
}

static const struct layer_kind dense_kind = {
    .name = "dense",
    .memory = dense_memory,
    .divide = dense_divide,
    .is_alike = dense_is_alike,
    .flops = dense_flops,
    .forward = dense_forward,
    .backward_input = dense_backward_input,
    .backward_weights = dense_backward_weights,
};

weft_status dense_add(struct model_description *description, const struct dense *dense, size_t width,
                      const char *prefix, double deviation, struct error *error)
{
    void *place;
    weft_status status =
        description_add_layer(description, &dense_kind, width, dense, sizeof *dense, &place, error, "%sdense", prefix);
    if (status != WEFT_OK)
        return status;
    struct dense *own = place;
    own->linear = (struct linear){.inputs = own->window * own->norm.width, .outputs = width};
    status = norm_add(description, &own->norm, prefix, "norm.weight", "norm.bias", error);
    if (status == WEFT_OK)
        status = linear_add(description, &own->linear, deviation, prefix, "weight", "bias", error);
    return status;
}
