/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of single layers. */
#include "training/model/passes.h"

#include "training/model/internal/model_parts.h"

#include <inttypes.h>
#include <math.h>
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
        .norms = model->options.norms,
        .arrays = call->arrays,
        .origin = group == NO_PARAMETER ? 0 : model->description->groups[group].offset,
        .batch = model->options.batch,
        .sequence = model->options.sequence,
        .prepare = prepare,
        .training = model->options.training,
        .tokens = slot->inputs.tokens,
        .targets = slot->inputs.targets,
        .target_count = slot->target_count,
        .segments = slot->inputs.segments,
        .lengths = slot->inputs.lengths,
        .positions = slot->inputs.positions,
        .labels = slot->inputs.labels,
        .pixels = slot->inputs.pixels,
        .shares = slot->inputs.shares,
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
    return a->dimensions == b->dimensions && a->absent == b->absent && a->statistic == b->statistic &&
           (!a->statistic || a->frozen == b->frozen);
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
    const struct layer_room room = pass_room(pass);
    const size_t loss_count = last ? model_loss_count(model, &room) : 0;
    model_show(model,
               &(struct model_turn){.layer = call->layer,
                                    .direction = MODEL_FORWARD,
                                    .values = last ? pass->losses : y,
                                    .count = last ? loss_count : pass_own_rows(pass) * call_layer(model, call)->width,
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

weft_status model_check_input(const struct model *model, enum model_input input, const int32_t *numbers, size_t count,
                              struct error *error)
{
    const int64_t least = model->inputs.least[input], most = model->inputs.most[input];
    const char *name = model_input_kinds[input].name;
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] >= least && numbers[i] <= most)
            continue;
        if (model->description->shape.vocabulary && (input == INPUT_TOKENS || input == INPUT_TARGETS))
            return error_set(
                error, WEFT_ERROR_DATA,
                "%s %zu of the batch is token %d, but the model's vocabulary has %zu tokens, from 0; check that "
                "the data was made for this vocabulary",
                name, i, (int)numbers[i], (size_t)most + 1);
        return error_set(error, WEFT_ERROR_DATA,
                         "%s %zu of the batch is %d, but the model takes %" PRId64 " to %" PRId64
                         "; check that the data was made for this model",
                         name, i, (int)numbers[i], least, most);
    }
    return WEFT_OK;
}

/* Write token numbers to a slot. On a tensor axis, where each rank has some rows of the vocabulary's tables, they are
 * counted from its first, and others are -1. */
static void slot_write_tokens(const struct model *model, enum model_input input, const int32_t *numbers, size_t count,
                              int32_t *to)
{
    const struct model_description *description = model->description;
    const size_t all = (size_t)model->inputs.most[input] + 1, ranks = description->tensor_ranks,
                 rank = description->tensor_rank;
    const int32_t first = (int32_t)tensor_part_begin(all, ranks, rank),
                  part = (int32_t)tensor_part_count(all, ranks, rank);
    int32_t *own = model->host;
    for (size_t i = 0; i < count; i++) {
        own[i] = numbers[i] >= first && numbers[i] - first < part ? numbers[i] - first : -1;
        if (numbers[i] < 0)
            own[i] = DEVICE_NO_TARGET;
    }
    model->device->write(model->device, to, own, count * sizeof *own);
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

static size_t count_targets(const int32_t *targets, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += targets[i] >= 0;
    return found;
}

static weft_status slot_write(const struct model *model, struct model_slot *slot, enum model_input input,
                              const void *array, struct error *error)
{
    const size_t count = model->options.batch * model->inputs.elements[input];
    struct device *device = model->device;
    weft_status status = WEFT_OK;
    if (model_input_kinds[input].type == WEFT_I32)
        status = model_check_input(model, input, array, count, error);
    if (status != WEFT_OK)
        return status;
    if (input == INPUT_TARGETS)
        slot->target_count = count_targets(array, count);
    if (input != INPUT_TOKENS && input != INPUT_TARGETS)
        device->write(device, slot->inputs.of[input], array,
                      model_input_bytes(&model->inputs, input, model->options.batch));
    else
        slot_write_tokens(model, input, array, count, slot->inputs.of[input]);
    if (input == INPUT_TOKENS && slot->table_rows)
        slot_number_rows(model, slot);
    return WEFT_OK;
}

weft_status model_slot_load(struct model *model, size_t number, const struct model_batch *batch, struct error *error)
{
    struct model_slot *slot = &model->slots[number];
    for (enum model_input input = 0; input < MODEL_INPUTS; input++) {
        if (!batch->inputs[input] || !slot->inputs.of[input])
            continue;
        const weft_status status = slot_write(model, slot, input, batch->inputs[input], error);
        if (status != WEFT_OK)
            return status;
    }
    slot->seed = batch->seed;
    slot->sample = batch->sample;
    slot->loss_scale = batch->loss_scale ? batch->loss_scale : 1;
    return WEFT_OK;
}

/* The last layer's numbers, in host memory. */
static weft_status read_losses(struct model *model, size_t slot, struct error *error)
{
    struct device *device = model->device;
    const struct layer_room room = model_room(model, device->type, device->activations);
    device->read(device, model->host, model->slots[slot].losses, model_loss_count(model, &room) * sizeof(double));
    return device->finish(device, error);
}

weft_status model_slot_loss(struct model *model, size_t slot, double *loss, struct error *error)
{
    const size_t rows = model->options.batch * model->options.sequence, last = model->description->layer_count - 1;
    const struct layer *layer = &model->description->layers[last];
    const weft_status status = read_losses(model, slot, error);
    if (status != WEFT_OK)
        return status;
    const double *losses = model->host;
    if (layer->kind->loss) {
        const struct pass pass = model_pass(model, &(struct layer_call){.layer = last, .slot = slot}, false);
        *loss = layer->kind->loss(layer, &pass, losses);
        return WEFT_OK;
    }
    double sum = 0;
    for (size_t i = 0; i < rows; i++)
        sum += losses[i];
    *loss = sum / (double)rows;
    return WEFT_OK;
}

weft_status model_slot_accuracy(struct model *model, size_t slot, double *accuracy, struct error *error)
{
    const size_t last = model->description->layer_count - 1;
    const struct layer *layer = &model->description->layers[last];
    const weft_status status = read_losses(model, slot, error);
    if (status != WEFT_OK)
        return status;
    const struct pass pass = model_pass(model, &(struct layer_call){.layer = last, .slot = slot}, false);
    *accuracy = layer->kind->accuracy ? layer->kind->accuracy(layer, &pass, model->host) : NAN;
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
    struct pass pass = model_pass(model, call, true);
    pass.x = call_x(model, call);
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
