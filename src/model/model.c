/* SPDX-License-Identifier: Apache-2.0 */
/* What all kinds of networks share: descriptions, checks, initial values. The rest goes through the kind's table. */
#include "model/model.h"

#include "base/random.h"
#include "model/operations.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct model_operations *const kinds[] = {&gpt_operations};
#define KINDS (sizeof kinds / sizeof *kinds)

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

weft_status model_describe(const struct model_shape *shape, struct model_description **result, struct error *error)
{
    const struct model_operations *operations = NULL;
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->kind, shape->kind) == 0)
            operations = kinds[i];
    if (!operations)
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no kind of model '%s'; there is gpt", shape->kind);
    struct model_description *description = calloc(1, sizeof *description);
    if (!description)
        return error_memory(error, sizeof *description, "a model's description");
    description->shape = *shape;
    description->shape.kind = operations->kind;
    description->operations = operations;
    weft_status status = operations->describe(description, error);
    if (status != WEFT_OK) {
        model_description_free(description);
        return status;
    }
    *result = description;
    return WEFT_OK;
}

void model_description_free(struct model_description *description)
{
    if (!description)
        return;
    free((void *)description->parameters);
    free(description);
}

weft_status description_add(struct model_description *description, size_t rows, size_t columns, struct error *error,
                            const char *name, ...)
{
    size_t bytes = (description->parameter_count + 1) * sizeof *description->parameters;
    struct model_parameter *parameters = realloc((void *)description->parameters, bytes);
    if (!parameters)
        return error_memory(error, bytes, "a model's description");
    struct model_parameter *parameter = &parameters[description->parameter_count];
    *parameter = (struct model_parameter){
        .dimensions = columns ? 2 : 1,
        .shape = {rows, columns},
        .count = columns ? rows * columns : rows,
        .offset = description->elements,
        .decay = columns != 0,
    };
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(parameter->name, sizeof parameter->name, name, arguments);
    va_end(arguments);
    description->parameters = parameters;
    description->parameter_count++;
    description->weights += parameter->count;
    description->elements += (parameter->count + MODEL_ALIGNMENT - 1) / MODEL_ALIGNMENT * MODEL_ALIGNMENT;
    return WEFT_OK;
}

const struct model_parameter *model_parameter_find(const struct model_description *description, const char *name)
{
    for (size_t i = 0; i < description->parameter_count; i++)
        if (strcmp(description->parameters[i].name, name) == 0)
            return &description->parameters[i];
    return NULL;
}

double model_flops_per_token(const struct model_description *description, size_t sequence)
{
    return description->operations->flops_per_token(description, sequence);
}

size_t model_memory(const struct model_description *description, weft_type type, size_t batch, size_t sequence,
                    bool training)
{
    return description->operations->memory(description, type, batch, sequence, training);
}

/* ---- initial values ---------------------------------------------------------------------------------------------- */

#define INITIAL_BLOCK 4096 /* values made in host memory at a time */

/* Values [first, first + count) of one tensor, made in the device's type and written there. */
static void initialise_block(struct device *device, const struct model_initial *initial, uint64_t seed, size_t first,
                             size_t count, void *to)
{
    union {
        float f32[INITIAL_BLOCK];
        double f64[INITIAL_BLOCK];
    } block;
    for (size_t i = 0; i < count; i++) {
        /* Rounded to f32 for every type: a network starts from the same numbers in f32 and in f64. */
        float value = (float)(initial->mean + initial->deviation * random_normal(seed, first + i));
        if (device->type == WEFT_F64)
            block.f64[i] = value;
        else
            block.f32[i] = value;
    }
    device->write(device, to, &block, count * weft_type_size(device->type));
}

weft_status model_initialise(const struct model_description *description, struct device *device, void *parameters,
                             uint64_t seed, struct error *error)
{
    size_t size = weft_type_size(device->type);
    device->fill(device, description->elements, 0, parameters);
    for (size_t j = 0; j < description->parameter_count; j++) {
        const struct model_parameter *parameter = &description->parameters[j];
        struct model_initial initial = description->operations->initial(description, parameter);
        char *to = (char *)parameters + parameter->offset * size;
        if (initial.deviation == 0) {
            device->fill(device, parameter->count, initial.mean, to);
            continue;
        }
        uint64_t stream = random_bits(seed, j);
        for (size_t first = 0; first < parameter->count; first += INITIAL_BLOCK) {
            size_t rest = parameter->count - first;
            initialise_block(device, &initial, stream, first, rest < INITIAL_BLOCK ? rest : INITIAL_BLOCK,
                             to + first * size);
        }
    }
    return device->finish(device, error);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

#define TOKENS_MOST ((size_t)1 << 26) /* in a micro-batch; keeps every size below within 64 bits */

weft_status model_open(const struct model_description *description, struct device *device, size_t batch,
                       size_t sequence, bool training, struct model **model, struct error *error)
{
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
    struct model base = {
        .description = description, .device = device, .batch = batch, .sequence = sequence, .training = training};
    return description->operations->open(&base, model, error);
}

void model_close(struct model *model)
{
    if (model)
        model->description->operations->close(model);
}

static weft_status check_tokens(const struct model *model, const int32_t *tokens, size_t count, const char *what,
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

static weft_status check_batch(const struct model *model, const struct model_batch *batch, struct error *error)
{
    size_t count = model->batch * model->sequence;
    weft_status status = check_tokens(model, batch->tokens, count, "input", error);
    return status == WEFT_OK ? check_tokens(model, batch->targets, count, "target", error) : status;
}

weft_status model_forward(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                          struct error *error)
{
    if (!model->training)
        return error_set(error, WEFT_ERROR_STATE,
                         "this model was opened without training, so it can be evaluated but not trained");
    weft_status status = check_batch(model, batch, error);
    return status == WEFT_OK ? model->description->operations->forward(model, parameters, batch, true, loss, error)
                             : status;
}

weft_status model_evaluate(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                           struct error *error)
{
    weft_status status = check_batch(model, batch, error);
    return status == WEFT_OK ? model->description->operations->forward(model, parameters, batch, false, loss, error)
                             : status;
}

weft_status model_backward(struct model *model, const void *parameters, void *gradients, model_ready ready,
                           void *context, struct error *error)
{
    return model->description->operations->backward(model, parameters, gradients, ready, context, error);
}

weft_status model_extend(struct model *model, const void *parameters, size_t first, const int32_t *tokens, size_t count,
                         double *logits, struct error *error)
{
    const struct model_operations *operations = model->description->operations;
    if (!operations->extend)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a model of kind %s makes no text", operations->kind);
    if (model->batch != 1)
        return error_set(error, WEFT_ERROR_STATE,
                         "a model opened for %zu sequences cannot extend one; open it with batch 1", model->batch);
    if (count < 1 || first > model->sequence || count > model->sequence - first)
        return error_set(error, WEFT_ERROR_ARGUMENT, "positions %zu to %zu do not fit a sequence of %zu tokens", first,
                         first + count, model->sequence);
    weft_status status = check_tokens(model, tokens, count, "input", error);
    return status == WEFT_OK ? operations->extend(model, parameters, first, tokens, count, logits, error) : status;
}

const struct model_description *model_get_description(const struct model *model)
{
    return model->description;
}

struct device *model_get_device(const struct model *model)
{
    return model->device;
}

size_t model_get_batch(const struct model *model)
{
    return model->batch;
}

size_t model_get_sequence(const struct model *model)
{
    return model->sequence;
}
