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
    uint16_t half[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t part = count - done < BLOCK ? count - done : BLOCK;
        device->read(device, size == 2 ? (void *)half : &block, (const char *)values + done * size, part * size);
        if (size == 2)
            device->from_activations(device, part, half, block.f32);
        for (size_t i = 0; i < part; i++)
            if (!isfinite(type == WEFT_F64 ? block.f64[i] : (double)block.f32[i]))
                return false;
    }
    return true;
}

/* Whether a layer's part of the gradients is finite. */
static bool are_gradients_finite(const struct not_finite_search *search, size_t layer,
                                 const struct layer_arrays *arrays)
{
    const struct model_description *description = search->description;
    const weft_type type = search->device->type;
    const size_t own = model_layer_group(description, layer), tied = model_tied_group(description),
                 sparse = arrays->sparse_rows * description->layers[layer].width;
    return (!arrays->gradients || is_finite(search->device, type, arrays->gradients, description->groups[own].count)) &&
           (!arrays->tied_gradients || is_finite(search->device, type, arrays->tied_gradients,
                                                 arrays->is_sparse ? sparse : description->groups[tied].count));
}

/* The first tensor of a group that is not finite, or NULL. */
static const char *not_finite_tensor_of(const struct not_finite_search *search, size_t number, weft_type type,
                                        const void *values)
{
    const struct model_group *group = values ? &search->description->groups[number] : NULL;
    for (size_t i = 0; group && i < group->parameter_count; i++) {
        const struct model_parameter *parameter = &search->description->parameters[group->parameter + i];
        const size_t offset = (parameter->offset - group->offset) * weft_type_size(type);
        if (!is_finite(search->device, type, (const char *)values + offset, parameter->count))
            return parameter->name;
    }
    return NULL;
}

void not_finite_look(struct not_finite_search *search, const struct model_turn *turn, const struct layer_arrays *arrays)
{
    const struct model_description *description = search->description;
    const bool backward = turn->direction == MODEL_BACKWARD;
    if (turn->begins || search->found.where != NOT_FINITE_NOWHERE)
        return;
    if (turn->weights ? are_gradients_finite(search, turn->layer, arrays)
                      : is_finite(search->device, turn->type, turn->values, turn->count))
        return;
    search->found = (struct not_finite){.where = backward ? NOT_FINITE_IN_GRADIENT : NOT_FINITE_IN_OUTPUT,
                                        .layer = description->layers[turn->layer].name};
    if (backward)
        return;
    /* As the layer reads them: under ZeRO-3 its matrices may be nowhere else. */
    const bool reads_values =
        model_layer_reads_values(description, turn->layer) || search->device->activations == search->device->type;
    const weft_type type = reads_values ? search->device->type : search->device->activations;
    search->found.weights = not_finite_tensor_of(search, model_layer_group(description, turn->layer), type,
                                                 reads_values ? arrays->own : arrays->own_activations);
    if (!search->found.weights)
        search->found.weights = not_finite_tensor_of(search, model_tied_group(description), type,
                                                     reads_values ? arrays->tied : arrays->tied_activations);
}
