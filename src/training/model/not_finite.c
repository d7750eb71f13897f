/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/not_finite.h"

#include "training/model/layer.h"

#include <math.h>

#define BLOCK 4096 /* elements that are checked together */

/* Whether all of `count` elements from `first` on are finite. */
static bool is_finite(struct device *device, weft_type type, const void *values, size_t first, size_t count)
{
    const size_t size = weft_type_size(type);
    union {
        float f32[BLOCK];
        double f64[BLOCK];
    } block;
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t part = count - done < BLOCK ? count - done : BLOCK;
        device->read(device, &block, (const char *)values + (first + done) * size, part * size);
        for (size_t i = 0; i < part; i++)
            if (!isfinite(type == WEFT_F64 ? block.f64[i] : (double)block.f32[i]))
                return false;
    }
    return true;
}

struct search {
    struct device *device;
    const struct model_description *description;
    const void *parameters, *gradients;
    struct not_finite found;
};

/* The first of tensors [first, first + count) of a flat array that is not finite, or NULL. */
static const char *not_finite_tensor_of(const struct search *search, const void *array, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const struct model_parameter *parameter = &search->description->parameters[i];
        if (!is_finite(search->device, search->device->type, array, parameter->offset, parameter->count))
            return parameter->name;
    }
    return NULL;
}

/* Outputs are checked one by one, gradients together with those of the layer's tensors. */
static void not_finite_look(void *context, const struct model_turn *turn)
{
    const bool backward = turn->direction == MODEL_BACKWARD;
    struct search *search = context;
    const struct layer *layer = &search->description->layers[turn->layer];
    if (turn->begins || search->found.where != NOT_FINITE_NOWHERE)
        return;
    bool finite = is_finite(search->device, turn->type, turn->values, 0, turn->count);
    if (backward && !not_finite_tensor_of(search, search->gradients, layer->parameter, layer->parameter_count) &&
        finite)
        return;
    if (!backward && finite)
        return;
    search->found =
        (struct not_finite){.where = backward ? NOT_FINITE_IN_GRADIENT : NOT_FINITE_IN_OUTPUT, .layer = layer->name};
    if (backward)
        return;
    search->found.weights = not_finite_tensor_of(search, search->parameters, layer->parameter, layer->parameter_count);
    if (!search->found.weights) /* a tied table is another layer's */
        search->found.weights =
            not_finite_tensor_of(search, search->parameters, 0, search->description->parameter_count);
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
