/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of single layers. */
#include "training/model/passes.h"

#include "training/model/internal/model_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a pass gets ---- */

static const void *layout_at(const void *array, size_t element, weft_type type)
{
    return array ? (const char *)array + element * weft_type_size(type) : NULL;
}

struct layer_arrays model_layer_arrays(const struct model_description *description, const struct device *device,
                                       size_t layer, const void *values, const void *activations, void *gradients)
{
    struct layer_arrays arrays = {0};
    const size_t own = model_layer_group(description, layer), tied = model_tied_group(description);
    if (own != NO_PARAMETER) {
        const size_t offset = description->groups[own].offset;
        arrays.own = layout_at(values, offset, device->type);
        arrays.own_activations = layout_at(activations, offset, device->activations);
        arrays.gradients = (void *)layout_at(gradients, offset, device->type);
    }
    if (model_layer_uses_tied(description, layer)) {
        const size_t offset = description->groups[tied].offset;
        const bool second = layer + 1 == description->layer_count && description->tied_users == 2;
        arrays.tied = layout_at(values, offset, device->type);
        arrays.tied_activations = layout_at(activations, offset, device->activations);
        arrays.tied_gradients = (void *)layout_at(gradients, second ? description->elements : offset, device->type);
    }
    return arrays;
}

struct pass model_pass(const struct model *model, const struct layer_call *call, bool prepare)
{
    const struct model_slot *slot = &model->slots[call->slot];
    const size_t group = model_layer_group(model->description, call->layer);
    return (struct pass){
        .device = model->device,
        .description = model->description,
        .tensor = model->options.tensor,
        .arrays = call->arrays,
        .origin = group == NO_PARAMETER ? 0 : model->description->groups[group].offset,
        .batch = model->options.batch,
        .sequence = model->options.sequence,
        .prepare = prepare,
        .training = model->options.training,
        .tokens = slot->tokens,
        .targets = slot->targets,
        .table_rows = slot->table_rows,
        .table_row_count = slot->distinct_count,
        .losses = slot->losses,
        .smoothing = prepare ? model->options.label_smoothing : 0,
        .dropout = prepare ? model->options.dropout : 0,
        .seed = slot->seed,
        .sample = slot->sample,
        .loss_scale = slot->loss_scale,
        .room_batch = model->options.batch,
        .room_sequence = model->options.sequence,
    };
}

static const struct layer *call_layer(const struct model *model, const struct layer_call *call)
{
    return &model->description->layers[call->layer];
}

static const struct slot_layer *call_slot_layer(const struct model *model, const struct layer_call *call)
{
    return &model->slots[call->slot].layers[call->layer];
}

static const void *call_x(const struct model *model, const struct layer_call *call)
{
    return call->x ? call->x : call_slot_layer(model, call)->x;
}

static bool call_is_last(const struct model *model, const struct layer_call *call)
{
    return call->layer + 1 == model->description->layer_count;
}

/* ---- equal layers ---- */

static bool parameters_are_alike(const struct model_parameter *a, const struct model_parameter *b)
{
    for (size_t d = 0; d < MODEL_DIMENSIONS; d++)
        if (a->shape[d] != b->shape[d])
            return false;
    return a->dimensions == b->dimensions && a->absent == b->absent;
}

bool model_layers_are_alike(const struct model_description *description, size_t a, size_t b)
{
    const struct layer *one = &description->layers[a], *other = &description->layers[b];
    if (one->kind != other->kind || one->parameter_count != other->parameter_count || one->width != other->width ||
        one->uses_tied != other->uses_tied ||
        layer_is_passed_over(description, a) != layer_is_passed_over(description, b))
        return false;
    for (size_t i = 0; i < one->parameter_count; i++)
        if (!parameters_are_alike(&description->parameters[one->parameter + i],
                                  &description->parameters[other->parameter + i]))
            return false;
    return one->kind->is_alike && one->kind->is_alike(one->settings, other->settings);
}

/* ---- watchers ---- */

static void model_show(const struct model *model, const struct model_turn *turn)
{
    if (model->watcher)
        model->watcher(model->watcher_context, turn);
}

static void show_begin(const struct model *model, size_t layer, enum model_direction direction, bool weights)
{
    model_show(model, &(struct model_turn){.layer = layer, .direction = direction, .weights = weights, .begins = true});
}

static void show_output(const struct model *model, const struct layer_call *call, const struct pass *pass,
                        const void *y)
{
    const bool last = call_is_last(model, call);
    model_show(model, &(struct model_turn){.layer = call->layer,
                                           .direction = MODEL_FORWARD,
                                           .values = last ? pass->losses : y,
                                           .count = last ? pass_rows(pass)
                                                         : pass_own_rows(pass) * call_layer(model, call)->width,
                                           .type = last ? WEFT_F64 : model->device->type});
}

static void show_gradient(const struct model *model, const struct layer_call *call, const struct pass *pass,
                          const void *gradient)
{
    const size_t i = call->layer;
    model_show(model,
               &(struct model_turn){.layer = i,
                                    .direction = MODEL_BACKWARD,
                                    .values = i ? gradient : NULL,
                                    .count = i ? pass_own_rows(pass) * model->description->layers[i - 1].width : 0,
                                    .type = model->device->type});
}

/* ---- slots ---- */

weft_status model_check_tokens(const struct model *model, const int32_t *tokens, size_t count, const char *what,
                               struct error *error)
{
    size_t vocabulary = model->description->shape.vocabulary;
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= vocabulary)
            return error_set(
                error, WEFT_ERROR_DATA,
                "%s %zu of the batch is token %d, but the model's vocabulary has %zu tokens, from 0; check that "
                "the data was made for this vocabulary",
                what, i, (int)tokens[i], vocabulary);
    return WEFT_OK;
}

/* Write token numbers to a slot. On a tensor axis, where each rank has some rows of the vocabulary's tables, they are
 * counted from its first, and others are -1. */
static void slot_write(const struct model *model, const int32_t *numbers, int32_t *to)
{
    const struct model_description *description = model->description;
    const size_t rows = model->options.batch * model->options.sequence, ranks = description->tensor_ranks,
                 rank = description->tensor_rank, all = description->shape.vocabulary;
    const int32_t first = (int32_t)tensor_part_begin(all, ranks, rank),
                  count = (int32_t)tensor_part_count(all, ranks, rank);
    int32_t *own = model->host;
    for (size_t i = 0; i < rows; i++)
        own[i] = numbers[i] >= first && numbers[i] - first < count ? numbers[i] - first : -1;
    model->device->write(model->device, to, own, rows * sizeof *own);
}

static int compare_tokens(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/* List the distinct tokens of the micro-batch that was written last, and write the number of each token in that list. */
static void slot_number_rows(const struct model *model, struct model_slot *slot)
{
    const size_t rows = model->options.batch * model->options.sequence;
    int32_t *own = model->host, *distinct = slot->distinct;
    size_t count = 0;
    memcpy(distinct, own, rows * sizeof *own);
    qsort(distinct, rows, sizeof *distinct, compare_tokens);
    for (size_t i = 0; i < rows; i++)
        if (distinct[i] >= 0 && (!count || distinct[i] != distinct[count - 1]))
            distinct[count++] = distinct[i];
    for (size_t i = 0; i < rows; i++) {
        const int32_t *found = own[i] < 0 ? NULL : bsearch(&own[i], distinct, count, sizeof *distinct, compare_tokens);
        own[i] = found ? (int32_t)(found - distinct) : -1;
    }
    model->device->write(model->device, slot->table_rows, own, rows * sizeof *own);
    slot->distinct_count = count;
}

size_t model_slot_table_rows(const struct model *model, size_t slot, const int32_t **tokens)
{
    *tokens = model->slots[slot].distinct;
    return model->slots[slot].distinct_count;
}

weft_status model_slot_load(struct model *model, size_t number, const struct model_batch *batch, struct error *error)
{
    struct model_slot *slot = &model->slots[number];
    const size_t rows = model->options.batch * model->options.sequence;
    weft_status status = WEFT_OK;
    if (batch->tokens)
        status = model_check_tokens(model, batch->tokens, rows, "input", error);
    if (status == WEFT_OK && batch->targets)
        status = model_check_tokens(model, batch->targets, rows, "target", error);
    if (status != WEFT_OK)
        return status;
    if (batch->tokens)
        slot_write(model, batch->tokens, slot->tokens);
    if (batch->tokens && slot->table_rows)
        slot_number_rows(model, slot);
    if (batch->targets)
        slot_write(model, batch->targets, slot->targets);
    slot->seed = batch->seed;
    slot->sample = batch->sample;
    slot->loss_scale = batch->loss_scale ? batch->loss_scale : 1;
    return WEFT_OK;
}

weft_status model_slot_loss(struct model *model, size_t slot, double *loss, struct error *error)
{
    struct device *device = model->device;
    const size_t rows = model->options.batch * model->options.sequence;
    device->read(device, model->host, model->slots[slot].losses, rows * sizeof(double));
    weft_status status = device->finish(device, error);
    if (status != WEFT_OK)
        return status;
    const double *losses = model->host;
    double sum = 0;
    for (size_t i = 0; i < rows; i++)
        sum += losses[i];
    *loss = sum / (double)rows;
    return WEFT_OK;
}

/* ---- passes ---- */

void model_layer_forward(struct model *model, const struct layer_call *call, bool prepare)
{
    const struct layer *layer = call_layer(model, call);
    const struct slot_layer *place = call_slot_layer(model, call);
    const struct pass pass = model_pass(model, call, prepare);
    void *y = call->y || call_is_last(model, call) ? call->y : place[1].x;
    show_begin(model, call->layer, MODEL_FORWARD, false);
    layer->kind->forward(layer, &pass, &place->places, call_x(model, call), y);
    show_output(model, call, &pass, y);
}

/* Fill what the layer keeps again, if it is kept in memory that other layers use. */
static void call_recompute(const struct model *model, const struct layer_call *call, const struct pass *pass)
{
    const struct layer *layer = call_layer(model, call);
    if (model_layer_is_recomputed(model, call->layer))
        layer->kind->forward(layer, pass, &call_slot_layer(model, call)->places, call_x(model, call), NULL);
}

void model_layer_backward_input(struct model *model, const struct layer_call *call, void *gradient)
{
    const struct layer *layer = call_layer(model, call);
    const struct pass pass = model_pass(model, call, true);
    if (layer_is_passed_over(model->description, call->layer))
        return;
    show_begin(model, call->layer, MODEL_BACKWARD, false);
    call_recompute(model, call, &pass);
    layer->kind->backward_input(layer, &pass, &call_slot_layer(model, call)->places, call_x(model, call), gradient);
    show_gradient(model, call, &pass, gradient);
}

/* Set the gradients between and after the parameters of a group to 0. */
static void clear_gaps(const struct model *model, size_t number, void *gradients)
{
    const struct model_description *description = model->description;
    const struct model_group *group = &description->groups[number];
    struct device *device = model->device;
    for (size_t i = 0; i < group->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[group->parameter + i];
        const size_t begin = parameter->offset - group->offset + parameter->count;
        const size_t end = i + 1 < group->parameter_count ? parameter[1].offset - group->offset : group->count;
        if (begin < end)
            device->fill(device, end - begin, 0, (char *)gradients + begin * weft_type_size(device->type));
    }
}

void model_layer_backward_weights(struct model *model, const struct layer_call *call)
{
    const struct model_description *description = model->description;
    const struct layer *layer = call_layer(model, call);
    const struct layer_arrays *arrays = call->arrays;
    struct device *device = model->device;
    const size_t own = model_layer_group(description, call->layer), tied = model_tied_group(description);
    if (layer_is_passed_over(model->description, call->layer)) {
        if (own != NO_PARAMETER)
            device->fill(device, description->groups[own].count, 0, arrays->gradients);
        if (layer->uses_tied)
            device->fill(device, description->groups[tied].count, 0, arrays->tied_gradients);
        return;
    }
    const struct pass pass = model_pass(model, call, true);
    show_begin(model, call->layer, MODEL_BACKWARD, true);
    if (model->options.split)
        call_recompute(model, call, &pass);
    layer->kind->backward_weights(layer, &pass, &call_slot_layer(model, call)->places);
    if (own != NO_PARAMETER)
        clear_gaps(model, own, arrays->gradients);
    if (layer->uses_tied && !(call->layer == 0 && model_has_sparse_table(model)))
        clear_gaps(model, tied, arrays->tied_gradients);
    model_show(model, &(struct model_turn){.layer = call->layer, .direction = MODEL_BACKWARD, .weights = true});
}
