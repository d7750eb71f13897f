/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a network: its layers, their parameters and the initial values. */
#include "base/random.h"
#include "training/model/layer.h"
#include "training/model/networks/networks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weft_status model_describe(const struct model_shape *shape, struct model_description **result, struct error *error)
{
    const struct network *network = network_find(shape->kind, error);
    if (!network)
        return WEFT_ERROR_ARGUMENT;
    struct model_description *description = calloc(1, sizeof *description);
    if (!description)
        return error_memory(error, sizeof *description, "a model's description");
    description->tied = NO_PARAMETER;
    description->tensor_ranks = 1;
    description->shape = *shape;
    description->shape.kind = network->kind;
    network->complete(&description->shape);
    weft_status status = network_check(network, &description->shape, error);
    if (status == WEFT_OK)
        status = network->describe(description, error);
    if (status == WEFT_OK)
        status = description_group_parameters(description, error);
    if (status != WEFT_OK) {
        model_description_free(description);
        return status;
    }
    model_lay_out_parameters(description);
    *result = description;
    return WEFT_OK;
}

/* NULL: there is no memory. */
static void *description_copy_array(const void *bytes, size_t size)
{
    void *copy = malloc(size ? size : 1);
    return copy && size ? memcpy(copy, bytes, size) : copy;
}

/* `layers` is a copy of a list that lacks its settings; false: there is no memory. */
static bool description_copy_settings(const struct layer *from, size_t count, struct layer *layers)
{
    bool complete = true;
    for (size_t i = 0; i < count; i++) {
        layers[i].settings = description_copy_array(from[i].settings, from[i].settings_bytes);
        complete = complete && layers[i].settings;
    }
    return complete;
}

weft_status model_description_copy(const struct model_description *description, struct model_description **copy,
                                   struct error *error)
{
    const size_t parameters = description->parameter_count * sizeof *description->parameters,
                 groups = description->group_count * sizeof *description->groups,
                 layers = description->layer_count * sizeof *description->layers;
    struct model_description *made = description_copy_array(description, sizeof *description);
    if (!made)
        return error_memory(error, sizeof *made, "a model's description");
    made->parameters = description_copy_array(description->parameters, parameters);
    made->groups = description_copy_array(description->groups, groups);
    made->layers = description_copy_array(description->layers, layers);
    made->parameter_room = made->parameter_count;
    made->layer_room = made->layer_count;
    if (!made->layers)
        made->layer_count = 0;
    if (!description_copy_settings(description->layers, made->layer_count, made->layers) || !made->parameters ||
        !made->groups || !made->layers) {
        model_description_free(made);
        return error_memory(error, parameters + groups + layers, "a model's description");
    }
    *copy = made;
    return WEFT_OK;
}

void model_description_free(struct model_description *description)
{
    if (!description)
        return;
    for (size_t i = 0; i < description->layer_count; i++)
        free(description->layers[i].settings);
    free(description->layers);
    free(description->groups);
    free(description->parameters);
    free(description);
}

weft_status description_add_layer(struct model_description *description, const struct layer_kind *kind, size_t width,
                                  const void *settings, size_t size, void **own, struct error *error, const char *name,
                                  ...)
{
    weft_status status = ARRAY_RESERVE(description->layers, description->layer_room, description->layer_count + 1,
                                       "a model's description", error);
    void *copy = status == WEFT_OK ? malloc(size) : NULL;
    if (!copy)
        return status != WEFT_OK ? status : error_memory(error, size, "a model's description");
    struct layer *layer = &description->layers[description->layer_count++];
    *layer = (struct layer){.kind = kind,
                            .width = width,
                            .parameter = description->parameter_count,
                            .settings = memcpy(copy, settings, size),
                            .settings_bytes = size};
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(layer->name, sizeof layer->name, name, arguments);
    va_end(arguments);
    if (width > description->widest)
        description->widest = width;
    *own = copy;
    return WEFT_OK;
}

weft_status description_add_tensor(struct model_description *description, const struct tensor_shape *shape,
                                   struct initial initial, const char *prefix, const char *name, size_t *number,
                                   struct error *error)
{
    *number = NO_PARAMETER;
    weft_status status = ARRAY_RESERVE(description->parameters, description->parameter_room,
                                       description->parameter_count + 1, "a model's description", error);
    if (status != WEFT_OK)
        return status;
    *number = description->parameter_count++;
    struct model_parameter *parameter = &description->parameters[*number];
    *parameter = (struct model_parameter){.rate_factor = 1, .mean = initial.mean, .deviation = initial.deviation};
    for (; parameter->dimensions < MODEL_DIMENSIONS && shape->lengths[parameter->dimensions]; parameter->dimensions++)
        parameter->shape[parameter->dimensions] = shape->lengths[parameter->dimensions];
    parameter->decay = parameter->dimensions > 1;
    snprintf(parameter->name, sizeof parameter->name, "%s%s", prefix, name);
    description->layers[description->layer_count - 1].parameter_count++;
    return WEFT_OK;
}

weft_status description_add_parameter(struct model_description *description, size_t rows, size_t columns,
                                      struct initial initial, const char *prefix, const char *name, size_t *number,
                                      struct error *error)
{
    *number = NO_PARAMETER;
    return name ? description_add_tensor(description, &(struct tensor_shape){{rows, columns}}, initial, prefix, name,
                                         number, error)
                : WEFT_OK;
}

weft_status description_add_statistic(struct model_description *description, size_t count, double value,
                                      const char *prefix, const char *name, size_t *number, struct error *error)
{
    const weft_status status =
        description_add_parameter(description, count, 0, (struct initial){.mean = value}, prefix, name, number, error);
    if (status == WEFT_OK)
        description->parameters[*number].statistic = true;
    return status;
}

const struct model_parameter *model_parameter_find(const struct model_description *description, const char *name)
{
    for (size_t i = 0; i < description->parameter_count; i++)
        if (strcmp(description->parameters[i].name, name) == 0)
            return &description->parameters[i];
    return NULL;
}

const char *model_layer_name(const struct model_description *description, size_t layer)
{
    return description->layers[layer].name;
}

const char *model_layer_kind(const struct model_description *description, size_t layer)
{
    return description->layers[layer].kind->name;
}

double model_flops_per_token(const struct model_description *description, size_t sequence)
{
    double forward = 0;
    for (size_t i = 0; i < description->layer_count; i++)
        forward += description->layers[i].kind->flops(&description->layers[i], sequence);
    return 3 * forward;
}

void model_get_layer(const struct model_description *description, size_t number, weft_type type, weft_type activations,
                     const struct model_options *options, struct model_layer *result)
{
    const struct layer *layer = &description->layers[number];
    const struct layer_room room = {.element = weft_type_size(type),
                                    .activation = weft_type_size(activations),
                                    .batch = options->batch,
                                    .sequence = options->sequence,
                                    .ranks = description->tensor_ranks,
                                    .divides_rows = options->tensor && options->tensor->divides_rows,
                                    .synchronizes_norms = options->norms != NULL,
                                    .training = options->training};
    const struct layer_memory memory = layer->kind->memory(layer, &room);
    *result = (struct model_layer){
        .name = layer->name,
        .kind = layer->kind->name,
        .width = layer->width,
        .parameter = layer->parameter,
        .parameter_count = layer->parameter_count,
        .flops = layer->kind->flops(layer, options->sequence),
        .own = memory.own,
        .kept = memory.kept + (options->split ? memory.deferred : 0),
        .scratch = memory.scratch + (options->split ? 0 : memory.deferred),
    };
    for (size_t i = layer->parameter; i < layer->parameter + layer->parameter_count; i++)
        result->weights += description->parameters[i].count;
}

/* ---- initial values ---- */

#define INITIAL_BLOCK 4096 /* values made in host memory at a time */

/* Values [first, first + count) of one tensor, made in the device's type and written there. */
static void initialize_block(struct device *device, const struct model_parameter *parameter, uint64_t seed,
                             size_t first, size_t count, void *to)
{
    union {
        float f32[INITIAL_BLOCK];
        double f64[INITIAL_BLOCK];
    } block;
    for (size_t i = 0; i < count; i++) {
        /* Rounded to f32 for every type: a network starts from the same numbers in f32 and in f64. */
        float value = (float)(parameter->mean + parameter->deviation * random_normal(seed, first + i));
        if (device->type == WEFT_F64)
            block.f64[i] = value;
        else
            block.f32[i] = value;
    }
    device->write(device, to, &block, count * weft_type_size(device->type));
}

/* The values of a range, in the part that begins at `to`. */
static void initialize_range(struct device *device, const struct model_parameter *parameter, uint64_t stream,
                             const struct model_range *range, char *to)
{
    for (size_t done = 0, count; done < range->count; done += count) {
        const size_t rest = range->count - done;
        count = rest < INITIAL_BLOCK ? rest : INITIAL_BLOCK;
        initialize_block(device, parameter, stream, range->first + done, count,
                         to + (range->local + done) * weft_type_size(device->type));
    }
}

/* The values of parameters first to first + count - 1, whose first element is at `to`. */
static void initialize_parameters(const struct model_description *description, struct device *device, size_t first,
                                  size_t count, uint64_t seed, char *to)
{
    const size_t size = weft_type_size(device->type), origin = description->parameters[first].offset;
    for (size_t j = first; j < first + count; j++) {
        const struct model_parameter *parameter = &description->parameters[j];
        char *values = to + (parameter->offset - origin) * size;
        if (parameter->absent)
            continue;
        if (parameter->deviation == 0) {
            device->fill(device, parameter->count, parameter->mean, values);
            continue;
        }
        for (size_t r = 0; r < model_range_count(description, j); r++) {
            const struct model_range range = model_get_range(description, j, r);
            initialize_range(device, parameter, random_bits(seed, j), &range, values);
        }
    }
}

weft_status model_initialize(const struct model_description *description, struct device *device, void *parameters,
                             uint64_t seed, struct error *error)
{
    device->fill(device, description->elements, 0, parameters);
    if (description->parameter_count)
        initialize_parameters(description, device, 0, description->parameter_count, seed, parameters);
    return device->finish(device, error);
}

weft_status model_initialize_group(const struct model_description *description, struct device *device, size_t group,
                                   void *values, uint64_t seed, struct error *error)
{
    const struct model_group *range = &description->groups[group];
    device->fill(device, range->count, 0, values);
    initialize_parameters(description, device, range->parameter, range->parameter_count, seed, values);
    return device->finish(device, error);
}
