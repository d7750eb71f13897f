/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/layers.h"

/*
 * Arrays have a row of activations for each token. Outside of training the rows of qkv live as long as the model: an
 * extended sequence attends to their keys and values.
 */
struct attention_arrays {
    struct norm_kept norm;
    void *qkv;
    void *attended; /* heads x head_width */
    void *logsums;  /* heads, of the device's type */
};

static struct attention attention_shape(const struct attention_layer *attention)
{
    return (struct attention){.heads = attention->heads,
                              .kv_heads = attention->kv_heads,
                              .head_width = attention->head_width,
                              .causal = !attention->sees_all};
}

static size_t heads_width(const struct attention_layer *attention)
{
    return attention->heads * attention->head_width;
}

static void attention_plan(const struct attention_layer *attention, const struct layer_room *room, struct arena *own,
                           struct arena *kept, struct attention_arrays *arrays)
{
    const struct attention shape = attention_shape(attention);
    const size_t rows = room->batch * room->sequence, column = rows * room->activation;
    norm_plan(&attention->norm, room, kept, &arrays->norm);
    arrays->qkv = arena_take(room->training ? kept : own, column * attention_row(&shape));
    arrays->attended = arena_take(kept, column * heads_width(attention));
    arrays->logsums = arena_take(kept, rows * attention->heads * room->element);
}

/* The arrays of one call. */
struct attention_scratch {
    void *branch;  /* width; forward only */
    void *to_norm; /* the same memory, backward */
    void *to_attended;
};

/* From the input pass to the weights pass: gradients of the outputs of the products. */
struct attention_deferred {
    void *to_branch; /* width */
    void *to_qkv;
    void *qkv_bias; /* its gradient, of the weights pass; NULL: the parts have none */
    struct norm_sums norm;
};

static void attention_plan_scratch(const struct attention_layer *attention, const struct layer_room *room,
                                   struct arena *arena, struct attention_scratch *scratch)
{
    const size_t column = room->batch * room->sequence * room->activation;
    scratch->branch = scratch->to_norm = arena_take(arena, column * attention->norm.width);
    scratch->to_attended = room->training ? arena_take(arena, column * heads_width(attention)) : NULL;
}

static void attention_plan_deferred(const struct attention_layer *attention, const struct layer_room *room,
                                    struct arena *arena, struct attention_deferred *deferred)
{
    const struct attention shape = attention_shape(attention);
    const size_t column = room->batch * room->sequence * room->activation;
    if (!room->training)
        return;
    deferred->to_branch = arena_take(arena, column * attention->norm.width);
    deferred->to_qkv = arena_take(arena, column * attention_row(&shape));
    deferred->qkv_bias =
        attention->q.bias == NO_PARAMETER ? NULL : arena_take(arena, attention_row(&shape) * room->element);
    norm_plan_sums(&attention->norm, room, arena, &deferred->norm);
}

static struct attention_scratch attention_scratch_of(const struct attention_layer *attention, const struct pass *pass,
                                                     const struct layer_places *places)
{
    struct attention_scratch scratch = {0};
    const struct layer_room room = pass_room(pass);
    attention_plan_scratch(attention, &room, &(struct arena){.base = places->scratch}, &scratch);
    return scratch;
}

static struct attention_deferred attention_deferred_of(const struct attention_layer *attention, const struct pass *pass,
                                                       const struct layer_places *places)
{
    struct attention_deferred deferred = {0};
    const struct layer_room room = pass_room(pass);
    attention_plan_deferred(attention, &room, &(struct arena){.base = places->deferred}, &deferred);
    return deferred;
}

static struct attention_arrays attention_arrays_of(const struct attention_layer *attention, const struct pass *pass,
                                                   const struct layer_places *places)
{
    struct attention_arrays arrays;
    const struct layer_room room = pass_room(pass);
    attention_plan(attention, &room, &(struct arena){.base = places->own}, &(struct arena){.base = places->kept},
                   &arrays);
    return arrays;
}

static struct layer_memory attention_memory(const struct layer *layer, const struct layer_room *room)
{
    const struct attention_layer *attention = layer->settings;
    struct attention_arrays arrays;
    struct attention_scratch places;
    struct attention_deferred gradients;
    struct arena own = {0}, kept = {0}, deferred = {0}, scratch = {0};
    attention_plan(attention, room, &own, &kept, &arrays);
    attention_plan_deferred(attention, room, &deferred, &gradients);
    attention_plan_scratch(attention, room, &scratch, &places);
    return (struct layer_memory){
        .own = own.used, .kept = kept.used, .deferred = deferred.used, .scratch = scratch.used};
}

static void attention_divide(void *settings, size_t ranks, size_t rank)
{
    struct attention_layer *attention = settings;
    struct linear *const linears[] = {&attention->qkv, &attention->q, &attention->k, &attention->v, &attention->out};
    attention->heads /= ranks;
    attention->kv_heads /= ranks;
    for (size_t i = 0; i < ARRAY_SIZE(linears); i++)
        linear_divide(linears[i], ranks, rank);
}

static bool attention_is_alike(const void *settings, const void *others)
{
    const struct attention_layer *a = settings, *b = others;
    return norms_are_alike(&a->norm, &b->norm) && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->head_width == b->head_width && a->rotary_base == b->rotary_base && a->sees_all == b->sees_all &&
           linears_are_alike(&a->qkv, &b->qkv) && linears_are_alike(&a->q, &b->q) && linears_are_alike(&a->k, &b->k) &&
           linears_are_alike(&a->v, &b->v) && linears_are_alike(&a->out, &b->out);
}

static double attention_flops(const struct layer *layer, size_t sequence)
{
    const struct attention_layer *attention = layer->settings;
    const struct attention shape = attention_shape(attention);
    const double products = (double)(attention->norm.width * (attention_row(&shape) + heads_width(attention)));
    return 2 * products + 4 * (double)(heads_width(attention) * sequence);
}

static void attention_rotate(const struct attention_layer *attention, const struct pass *pass, bool back, void *qkv)
{
    if (attention->rotary_base == 0)
        return;
    const struct attention shape = attention_shape(attention);
    pass->device->rotary(pass->device,
                         &(struct rotary){.batch = pass->batch,
                                          .sequence = pass->sequence,
                                          .first = pass->first,
                                          .heads = attention->heads + attention->kv_heads,
                                          .head_width = attention->head_width,
                                          .stride = attention_row(&shape),
                                          .base = attention->rotary_base,
                                          .back = back},
                         qkv);
}

/* The parts of a row of queries, keys and values, where each is a product of its own. */
struct part {
    const struct linear *linear;
    size_t first; /* element of the row */
};

static size_t parts_of(const struct attention_layer *attention, struct part parts[3])
{
    if (attention->qkv.weight != NO_PARAMETER) {
        parts[0] = (struct part){&attention->qkv, 0};
        return 1;
    }
    parts[0] = (struct part){&attention->q, 0};
    parts[1] = (struct part){&attention->k, attention->q.outputs};
    parts[2] = (struct part){&attention->v, attention->q.outputs + attention->k.outputs};
    return 3;
}

static void attention_forward(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                              const void *x, void *y)
{
    const struct attention_layer *attention = layer->settings;
    const struct attention_arrays arrays = attention_arrays_of(attention, pass, places);
    struct device *device = pass->device;
    struct attention shape = attention_shape(attention);
    shape.batch = pass->batch;
    shape.sequence = pass->first + pass->sequence;
    shape.first = pass->first;
    shape.lengths = attention->sees_all ? pass->lengths : NULL;
    const size_t row = attention_row(&shape);
    void *qkv = pass_activation_at(pass, arrays.qkv, pass->first * row),
         *branch = attention_scratch_of(attention, pass, places).branch;

    branch_enter(pass, &attention->norm, x, &arrays.norm);
    struct part parts[3];
    for (size_t i = 0, count = parts_of(attention, parts); i < count; i++)
        linear_forward(pass, parts[i].linear, arrays.norm.out, pass_activation_at(pass, qkv, parts[i].first), row);
    attention_rotate(attention, pass, false, qkv);
    device->attention_forward(device, &shape, arrays.qkv, arrays.attended, pass->prepare ? arrays.logsums : NULL);
    if (!y && !attention->norm.after)
        return;
    linear_forward(pass, &attention->out,
                   pass_activation_at(pass, arrays.attended, pass->first * heads_width(attention)), branch, 0);
    branch_leave(pass, layer, &attention->norm, x, branch, &arrays.norm, y);
}

static void attention_backward_input(const struct layer *layer, const struct pass *pass,
                                     const struct layer_places *places, const void *x, void *gradient)
{
    const struct attention_layer *attention = layer->settings;
    const struct attention_arrays arrays = attention_arrays_of(attention, pass, places);
    const struct attention_scratch scratch = attention_scratch_of(attention, pass, places);
    const struct attention_deferred deferred = attention_deferred_of(attention, pass, places);
    struct device *device = pass->device;
    struct attention shape = attention_shape(attention);
    shape.batch = pass->batch;
    shape.sequence = pass->sequence;
    shape.lengths = attention->sees_all ? pass->lengths : NULL;
    const size_t row = attention_row(&shape);

    branch_begin_backward(pass, layer, &attention->norm, &arrays.norm, gradient, deferred.to_branch, &deferred.norm);
    linear_backward_input(pass, &attention->out, deferred.to_branch, 0, false, scratch.to_attended);
    device->attention_backward(device, &shape, arrays.qkv, arrays.attended, arrays.logsums, scratch.to_attended,
                               deferred.to_qkv);
    attention_rotate(attention, pass, true, deferred.to_qkv);
    struct part parts[3];
    for (size_t i = 0, count = parts_of(attention, parts); i < count; i++)
        linear_backward_input(pass, parts[i].linear, pass_activation_at(pass, deferred.to_qkv, parts[i].first), row,
                              i > 0, scratch.to_norm);
    branch_end_backward(pass, &attention->norm, &arrays.norm, x, scratch.to_norm, gradient, &deferred.norm);
}

static void attention_backward_weights(const struct layer *layer, const struct pass *pass,
                                       const struct layer_places *places)
{
    const struct attention_layer *attention = layer->settings;
    const struct attention_arrays arrays = attention_arrays_of(attention, pass, places);
    const struct attention_deferred deferred = attention_deferred_of(attention, pass, places);
    const struct attention shape = attention_shape(attention);
    const size_t row = attention_row(&shape);

    linear_backward_weights(pass, &attention->out, arrays.attended, deferred.to_branch, 0);
    if (deferred.qkv_bias)
        pass->device->column_sums(pass->device, pass_rows(pass), row, deferred.to_qkv, deferred.qkv_bias);
    struct part parts[3];
    for (size_t i = 0, count = parts_of(attention, parts); i < count; i++) {
        const struct linear *linear = parts[i].linear;
        const void *to_part = pass_activation_at(pass, deferred.to_qkv, parts[i].first);
        if (deferred.qkv_bias) {
            gradient_store(pass, linear->bias, linear->outputs, pass_at(pass, deferred.qkv_bias, parts[i].first));
            linear_backward_weight(pass, linear, arrays.norm.out, to_part, row);
        } else {
            linear_backward_weights(pass, linear, arrays.norm.out, to_part, row);
        }
    }
    norm_backward_weights(pass, &attention->norm, &deferred.norm);
}

static const struct layer_kind attention_kind = {
    .name = "attention",
    .is_attention = true,
    .memory = attention_memory,
    .divide = attention_divide,
    .is_alike = attention_is_alike,
    .flops = attention_flops,
    .forward = attention_forward,
    .backward_input = attention_backward_input,
    .backward_weights = attention_backward_weights,
};

weft_status attention_add(struct model_description *description, const struct attention_layer *attention,
                          const struct attention_names *names, bool outputs_first, double deviation,
                          double out_deviation, struct error *error)
{
    void *place;
    weft_status status = description_add_layer(description, &attention_kind, attention->norm.width, attention,
                                               sizeof *attention, &place, error, "%sattention", names->prefix);
    if (status != WEFT_OK)
        return status;
    struct attention_layer *own = place;
    const size_t width = own->norm.width, all = heads_width(own), of_keys = own->kv_heads * own->head_width;
    own->qkv = (struct linear){.inputs = width,
                               .outputs = all + 2 * of_keys,
                               .outputs_first = outputs_first,
                               .segments = {all, of_keys, of_keys}};
    own->q = (struct linear){.inputs = width, .outputs = all, .outputs_first = outputs_first};
    own->k = own->v = (struct linear){.inputs = width, .outputs = of_keys, .outputs_first = outputs_first};
    own->out = (struct linear){.inputs = all, .outputs = width, .outputs_first = outputs_first, .inputs_divided = true};
    const struct {
        struct linear *linear;
        const char *weight, *bias;
        double deviation;
    } linears[] = {{&own->qkv, names->qkv, names->qkv_bias, deviation},
                   {&own->q, names->q, names->q_bias, deviation},
                   {&own->k, names->k, names->k_bias, deviation},
                   {&own->v, names->v, names->v_bias, deviation},
                   {&own->out, names->out, names->out_bias, out_deviation}};
    if (!own->norm.after)
        status = norm_add(description, &own->norm, names->prefix, names->norm_gain, names->norm_bias, error);
    for (size_t i = 0; status == WEFT_OK && i < ARRAY_SIZE(linears); i++)
        status = linear_add(description, linears[i].linear, linears[i].deviation, names->prefix, linears[i].weight,
                            linears[i].bias, error);
    if (status == WEFT_OK && own->norm.after)
        status = norm_add(description, &own->norm, names->prefix, names->norm_gain, names->norm_bias, error);
    return status;
}
