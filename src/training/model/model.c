/* SPDX-License-Identifier: Apache-2.0 */
/* A network on a device: opening it, and passes through all its layers. */
#include "training/model/internal/model_parts.h"

#include "base/float_bits.h"

#include <stdlib.h>
#include <string.h>

const char *const model_recompute_names[] = {"nothing", "attention", "all", NULL};

/* ---- opening and closing ---- */

#define TOKENS_MOST ((size_t)1 << 26) /* in a micro-batch; keeps every size below within 64 bits */

weft_status model_check_options(const struct model_description *description, const struct model_options *options,
                                struct error *error)
{
    const size_t batch = options->batch, sequence = options->sequence;
    if (batch < 1 || sequence < 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a micro-batch of %zu sequences of %zu tokens is empty; both must be at least 1", batch,
                         sequence);
    if (sequence > description->shape.context)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "sequences of %zu tokens do not fit the model's context of %zu; use shorter ones or a larger context",
            sequence, description->shape.context);
    if (batch > TOKENS_MOST / sequence)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a micro-batch of %zu sequences of %zu tokens is too large; at most %zu tokens are possible",
                         batch, sequence, TOKENS_MOST);
    if (!(options->dropout >= 0 && options->dropout < 1))
        return error_set(error, WEFT_ERROR_ARGUMENT, "a dropout of %g is impossible; it must be from 0 to below 1",
                         options->dropout);
    if ((options->tensor ? options->tensor->ranks : 1) != description->tensor_ranks ||
        (options->tensor && !options->slots))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a model that is divided over %zu tensor ranks needs their group, for passes layer by layer",
                         description->tensor_ranks);
    if (options->tensor && options->tensor->divides_rows && batch * sequence % options->tensor->ranks != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a micro-batch of %zu sequences of %zu tokens cannot be divided evenly over %zu tensor ranks",
                         batch, sequence, options->tensor->ranks);
    return WEFT_OK;
}

/* The model's own copy of the list of its layers. */
static weft_status model_copy_layers(struct model *model, struct error *error)
{
    const size_t bytes = model->description->layer_count * sizeof *model->options.layers;
    if (!model->options.layers)
        return WEFT_OK;
    bool *copy = malloc(bytes);
    if (copy)
        memcpy(copy, model->options.layers, bytes);
    model->options.layers = copy;
    return copy ? WEFT_OK : error_memory(error, bytes, "a model's list of layers");
}

/* On a tensor axis layers sum their activations over the ranks. */
static weft_status model_allocate(struct model *model, size_t bytes, struct error *error)
{
    const struct tensor_group *tensor = model->options.tensor;
    if (tensor && tensor->allocate)
        model->memory = tensor->allocate(tensor->context, bytes);
    model->memory_is_shared = model->memory != NULL;
    if (!model->memory)
        model->memory = model->device->allocate(model->device, bytes, "a model's activations", error);
    return model->memory ? WEFT_OK : WEFT_ERROR_MEMORY;
}

static void model_release(struct model *model)
{
    const struct tensor_group *tensor = model->options.tensor;
    if (model->memory_is_shared)
        tensor->release(tensor->context, model->memory);
    else
        model->device->release(model->device, model->memory);
}

weft_status model_open(const struct model_description *description, struct device *device,
                       const struct model_options *options, struct model **result, struct error *error)
{
    weft_status status = model_check_options(description, options, error);
    if (status != WEFT_OK)
        return status;
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return error_memory(error, sizeof *model, "a model");
    *model = (struct model){.description = description,
                            .device = device,
                            .options = *options,
                            .inputs = model_inputs_of(description, options->sequence)};
    const struct layer_room room = model_room(model, device->type, device->activations);
    const size_t numbers =
        options->batch * options->sequence + model_loss_count(model, &room) + model_logit_count(model);
    struct arena arena = {0};
    status = model_copy_layers(model, error);
    if (status == WEFT_OK)
        status = model_lists_open(model, error);
    model->host = malloc(numbers * sizeof(double));
    if (status == WEFT_OK && !model->host)
        status = error_memory(error, numbers * sizeof(double), "a model's losses");
    if (status == WEFT_OK) {
        model_plan_memory(model, device->type, device->activations, &arena);
        status = model_allocate(model, arena.used, error);
    }
    if (status != WEFT_OK) {
        model_close(model);
        return status;
    }
    arena = (struct arena){.base = model->memory};
    model_plan_memory(model, device->type, device->activations, &arena);
    *result = model;
    return WEFT_OK;
}

void model_close(struct model *model)
{
    if (!model)
        return;
    model_release(model);
    model_lists_close(model);
    free((void *)model->options.layers);
    free(model->host);
    free(model);
}

/* ---- forward ---- */

/* Passes through all layers need them, and the copy of weights that models for passes layer by layer do not have. */
static weft_status check_whole(const struct model *model, struct error *error)
{
    if (model->options.layers || model->options.slots)
        return error_set(error, WEFT_ERROR_STATE, "this model was opened for passes layer by layer");
    return WEFT_OK;
}

/* The weights as activations, cast again if they have changed. */
static const void *weights_of(struct model *model, const void *parameters)
{
    if (!model->as_activations)
        return parameters;
    if (model->cast_from != parameters)
        model->device->to_activations(model->device, model->description->elements, parameters, model->as_activations);
    model->cast_from = parameters;
    return model->as_activations;
}

void model_weights_changed(struct model *model)
{
    model->cast_from = NULL;
}

void *model_weights_as_activations(struct model *model)
{
    return model->as_activations;
}

/* `prepare`: a backward pass may follow. */
static weft_status forward(struct model *model, const void *parameters, const struct model_batch *batch, bool prepare,
                           double *loss, struct error *error)
{
    const struct model_description *description = model->description;
    weft_status status = check_whole(model, error);
    if (status == WEFT_OK)
        status = model_slot_load(model, 0, batch, error);
    if (status != WEFT_OK)
        return status;
    const void *weights = weights_of(model, parameters);
    for (size_t i = 0; i < description->layer_count; i++) {
        const struct layer_arrays arrays = model_layer_arrays(description, model->device, i, parameters, weights, NULL);
        model_layer_forward(model, &(struct layer_call){.layer = i, .arrays = &arrays}, prepare);
    }
    status = model_slot_loss(model, 0, loss, error);
    model->prepared = prepare && status == WEFT_OK;
    return status;
}

weft_status model_forward(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                          struct error *error)
{
    if (!model->options.training)
        return error_set(error, WEFT_ERROR_STATE,
                         "this model was opened without training, so it can be evaluated but not trained");
    return forward(model, parameters, batch, true, loss, error);
}

weft_status model_evaluate(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                           struct error *error)
{
    return forward(model, parameters, batch, false, loss, error);
}

static void convert_logits(weft_type type, size_t count, const void *from, double *to)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        if (type == WEFT_F64) {
            to[i] = ((const double *)from)[i];
            continue;
        }
        if (type == WEFT_BF16) /* the upper half of a float */
            value = float_from_bits((uint32_t)((const uint16_t *)from)[i] << 16);
        else if (type == WEFT_F16)
            value = float_from_f16(((const uint16_t *)from)[i]);
        else
            value = ((const float *)from)[i];
        to[i] = (double)value;
    }
}

/* The forward pass of layer `i` for positions of one sequence, from rows `x` to `y`. */
static void extend_layer(struct model *model, const void *parameters, size_t i, size_t first, size_t count,
                         const void *x, void *y)
{
    const struct layer *layer = &model->description->layers[i];
    const struct layer_arrays arrays =
        model_layer_arrays(model->description, model->device, i, parameters, weights_of(model, parameters), NULL);
    struct pass pass = model_pass(model, &(struct layer_call){.layer = i, .arrays = &arrays}, false);
    pass.first = first;
    pass.sequence = count;
    pass.targets = NULL;
    layer->kind->forward(layer, &pass, &model->slots[0].layers[i].places, x, y);
}

weft_status model_extend(struct model *model, const void *parameters, size_t first, const int32_t *tokens, size_t count,
                         double *logits, struct error *error)
{
    struct device *device = model->device;
    const struct slot_layer *layers = model->slots[0].layers;
    const size_t last = model->description->layer_count - 1, vocabulary = model->description->shape.vocabulary;
    if (model->options.batch != 1 || model->options.training)
        return error_set(error, WEFT_ERROR_STATE,
                         "a model opened for %zu sequences%s cannot extend one; open it with batch 1, without training",
                         model->options.batch, model->options.training ? ", to train," : "");
    if (model_samples_of(&model->description->shape) != SAMPLES_OF_TOKENS)
        return error_set(error, WEFT_ERROR_STATE,
                         "a network of kind %s does not predict next tokens, so it cannot extend a sequence; use a "
                         "language model such as a gpt",
                         model->description->shape.kind);
    if (count < 1 || first > model->options.sequence || count > model->options.sequence - first)
        return error_set(error, WEFT_ERROR_ARGUMENT, "positions %zu to %zu do not fit a sequence of %zu tokens", first,
                         first + count, model->options.sequence);
    if (!model->inputs.elements[INPUT_TOKENS])
        return error_set(error, WEFT_ERROR_STATE, "a %s reads no tokens, so it cannot extend a sequence",
                         model->description->shape.kind);
    weft_status status = check_whole(model, error);
    if (status == WEFT_OK)
        status = model_check_input(model, INPUT_TOKENS, tokens, count, error);
    if (status != WEFT_OK)
        return status;
    device->write(device, model->slots[0].inputs.tokens, tokens, count * sizeof *tokens);
    for (size_t i = 0; i < last; i++)
        extend_layer(model, parameters, i, first, count, layers[i].x, layers[i + 1].x);
    const size_t row = model->description->layers[last - 1].width * weft_type_size(device->type);
    extend_layer(model, parameters, last, first, 1, (char *)layers[last].x + (count - 1) * row, model->logits);
    device->read(device, model->host, model->logits, vocabulary * weft_type_size(device->activations));
    status = device->finish(device, error);
    if (status == WEFT_OK)
        convert_logits(device->activations, vocabulary, model->host, logits);
    return status;
}

weft_status model_classify(struct model *model, const void *parameters, const struct model_batch *batch, double *logits,
                           struct error *error)
{
    const struct model_description *description = model->description;
    struct device *device = model->device;
    const size_t last = description->layer_count - 1, count = model_logit_count(model);
    if (!description->shape.classes || model->options.training)
        return error_set(error, WEFT_ERROR_STATE, "a model of kind %s%s gives no classes of samples",
                         description->shape.kind, model->options.training ? ", opened to train," : "");
    weft_status status = check_whole(model, error);
    if (status == WEFT_OK)
        status = model_slot_load(model, 0, batch, error);
    if (status != WEFT_OK)
        return status;
    const void *weights = weights_of(model, parameters);
    for (size_t i = 0; i <= last; i++) {
        const struct layer *layer = &description->layers[i];
        const struct layer_arrays arrays = model_layer_arrays(description, device, i, parameters, weights, NULL);
        const struct layer_call call = {.layer = i, .arrays = &arrays};
        struct pass pass = model_pass(model, &call, false);
        pass.targets = pass.labels = NULL;
        layer->kind->forward(layer, &pass, &model->slots[0].layers[i].places, model->slots[0].layers[i].x,
                             i < last ? model->slots[0].layers[i + 1].x : model->logits);
    }
    device->read(device, model->host, model->logits, count * weft_type_size(device->activations));
    status = device->finish(device, error);
    if (status == WEFT_OK)
        convert_logits(device->activations, count, model->host, logits);
    return status;
}

/* ---- backward ---- */

/* Add the head's part of the gradient of the tied table to that of the embedding, whose layer is `i`. */
static void add_tied(const struct model *model, size_t i, void *gradients)
{
    const struct model_description *description = model->description;
    const size_t group = model_tied_group(description), size = weft_type_size(model->device->type);
    char *table = (char *)gradients + description->groups[group].offset * size;
    if (!layer_is_passed_over(model->description, i))
        model->device->add(model->device, description->groups[group].count, table,
                           (char *)gradients + description->elements * size, table);
}

weft_status model_backward(struct model *model, const void *parameters, void *gradients, model_ready ready,
                           void *context, struct error *error)
{
    const struct model_description *description = model->description;
    if (!model->prepared)
        return error_set(error, WEFT_ERROR_STATE, "a backward pass needs a forward pass of its own before it");
    model->prepared = false;
    const void *weights = weights_of(model, parameters);
    for (size_t i = description->layer_count; i-- > 0;) {
        const struct layer *layer = &description->layers[i];
        const struct layer_arrays arrays =
            model_layer_arrays(description, model->device, i, parameters, weights, gradients);
        const struct layer_call call = {.layer = i, .arrays = &arrays};
        model_layer_backward_input(model, &call, model->gradient);
        model_layer_backward_weights(model, &call);
        if (arrays.tied_gradients && i + 1 < description->layer_count)
            add_tied(model, i, gradients);
        for (size_t k = layer->parameter_count; ready && k-- > 0;)
            ready(context, layer->parameter + k);
    }
    return model->device->finish(model->device, error);
}

void model_watch(struct model *model, model_watcher watcher, void *context)
{
    model->watcher = watcher;
    model->watcher_context = context;
}

/* ---- accessors ---- */

const struct model_description *model_get_description(const struct model *model)
{
    return model->description;
}

size_t model_get_batch(const struct model *model)
{
    return model->options.batch;
}

size_t model_get_sequence(const struct model *model)
{
    return model->options.sequence;
}
