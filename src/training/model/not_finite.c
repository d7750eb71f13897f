/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/not_finite.h"

#include "training/model/layer.h"

#include <math.h>

#define BLOCK 4096 /* elements that are checked together */

/* Whether all of `count` elements are finite. */
static bool is_finite(struct device *device, weft_type type, const void *values, size_t count)
{
    const size_t size = weft_type_size(type);
    union {
        float f32[BLOCK];
        double f64[BLOCK];
    } block;
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t part = count - done < BLOCK ? count - done : BLOCK;
        device->read(device, &block, (const char *)values + done * size, part * size);
        for (size_t i = 0; i < part; i++)
            if (!isfinite(type == WEFT_F64 ? block.f64[i] : (double)block.f32[i]))
                return false;
    }
    return true;
}

struct search {
    struct device *device;
    const struct model_description *description;
    const void *parameters;
    void *gradients;
    struct not_finite found;
};

/* Whether a layer's part of the gradients is finite. */
static bool are_gradients_finite(const struct search *search, size_t layer)
{
    const struct model_description *description = search->description;
    const struct layer_arrays arrays =
        model_layer_arrays(description, search->device, layer, NULL, NULL, search->gradients);
    const weft_type type = search->device->type;
    const size_t own = model_layer_group(description, layer), tied = model_tied_group(description);
    return (!arrays.gradients || is_finite(search->device, type, arrays.gradients, description->groups[own].count)) &&
           (!arrays.tied_gradients ||
            is_finite(search->device, type, arrays.tied_gradients, description->groups[tied].count));
}

/* The first of tensors [first, first + count) that is not finite, or NULL. */
static const char *not_finite_tensor_of(const struct search *search, size_t first, size_t count)
{
    const weft_type type = search->device->type;
    for (size_t i = first; i < first + count; i++) {
        const struct model_parameter *parameter = &search->description->parameters[i];
        if (!is_finite(search->device, type,
                       (const char *)search->parameters + parameter->offset * weft_type_size(type), parameter->count))
            return parameter->name;
    }
    return NULL;
}

/* Outputs are checked one by one, gradients of weights layer by layer. */
static void not_finite_look(void *context, const struct model_turn *turn)
{
    struct search *search = context;
    const struct layer *layer = &search->description->layers[turn->layer];
    if (turn->begins || search->found.where != NOT_FINITE_NOWHERE)
        return;
    if (turn->weights ? are_gradients_finite(search, turn->layer)
                      : is_finite(search->device, turn->type, turn->values, turn->count))
        return;
    search->found =
        (struct not_finite){.where = turn->direction == MODEL_BACKWARD ? NOT_FINITE_IN_GRADIENT : NOT_FINITE_IN_OUTPUT,
                            .layer = layer->name};
    if (turn->direction == MODEL_BACKWARD)
        return;
    search->found.weights = not_finite_tensor_of(search, layer->parameter, layer->parameter_count);
    if (!search->found.weights) /* a tied table is another layer's */
        search->found.weights = not_finite_tensor_of(search, 0, search->description->parameter_count);
}

weft_status not_finite_find(struct model *model, const void *parameters, void *gradients,
                            const struct model_batch *batch, struct not_finite *found, struct error *error)
{
    struct search search = {.device = model_get_device(model),
                            .description = model_get_description(model),
                            .parameters = parameters,
                            .gradients = gradients};
    double loss;
    model_watch(model, not_finite_look, &search);
    weft_status status = model_forward(model, parameters, batch, &loss, error);
    if (status == WEFT_OK && search.found.where == NOT_FINITE_NOWHERE)
        status = model_backward(model, parameters, gradients, NULL, NULL, error);
    model_watch(model, NULL, NULL);
    if (status == WEFT_OK)
        *found = search.found;
    return status;
}
