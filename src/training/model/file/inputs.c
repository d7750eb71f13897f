/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/inputs.h"

#include "training/model/networks/networks.h"

#include <stdlib.h>

const struct model_input_kind model_input_kinds[MODEL_INPUTS] = {
    [INPUT_TOKENS] = {"input", WEFT_I32, READ_BY_FIRST},      [INPUT_TARGETS] = {"target", WEFT_I32, READ_BY_LAST},
    [INPUT_SEGMENTS] = {"segment", WEFT_I32, READ_BY_FIRST},  [INPUT_LENGTHS] = {"length", WEFT_I32, READ_BY_ALL},
    [INPUT_POSITIONS] = {"position", WEFT_I32, READ_BY_LAST}, [INPUT_LABELS] = {"label", WEFT_I32, READ_BY_LAST},
    [INPUT_PIXELS] = {"pixel", WEFT_F32, READ_BY_FIRST},      [INPUT_SHARES] = {"share", WEFT_F32, READ_BY_LAST},
};

struct model_inputs model_shape_inputs(const struct model_shape *shape, size_t sequence)
{
    const struct network *network = shape->kind ? network_find(shape->kind, NULL) : NULL;
    struct model_shape complete = *shape;
    struct model_inputs inputs = {0};
    if (network && network->inputs) {
        network->complete(&complete);
        network->inputs(&complete, sequence, &inputs);
        return inputs;
    }
    inputs.elements[INPUT_TOKENS] = inputs.elements[INPUT_TARGETS] = sequence;
    inputs.most[INPUT_TOKENS] = inputs.most[INPUT_TARGETS] = (int64_t)shape->vocabulary - 1;
    return inputs;
}

struct model_inputs model_inputs_of(const struct model_description *description, size_t sequence)
{
    return model_shape_inputs(&description->shape, sequence);
}

enum model_samples model_samples_of(const struct model_shape *shape)
{
    const struct model_inputs inputs = model_shape_inputs(shape, 1);
    if (inputs.elements[INPUT_LENGTHS])
        return SAMPLES_OF_TEXTS;
    return inputs.elements[INPUT_TOKENS] ? SAMPLES_OF_TOKENS : SAMPLES_OF_IMAGES;
}

bool model_reads_input(const struct model_description *description, const bool *layers,
                       const struct model_inputs *inputs, enum model_input input)
{
    if (!inputs->elements[input])
        return false;
    switch (model_input_kinds[input].readers) {
    case READ_BY_FIRST:
        return !layers || layers[0];
    case READ_BY_LAST:
        return !layers || layers[description->layer_count - 1];
    case READ_BY_ALL:
        break;
    }
    return true;
}

size_t model_input_bytes(const struct model_inputs *inputs, enum model_input input, size_t batch)
{
    return batch * inputs->elements[input] * weft_type_size(model_input_kinds[input].type);
}

weft_status model_arrays_allocate(const struct model_description *description, const bool *layers, size_t sequence,
                                  size_t batch, struct model_arrays *arrays, struct error *error)
{
    const struct model_inputs inputs = model_inputs_of(description, sequence);
    *arrays = (struct model_arrays){0};
    for (enum model_input input = 0; input < MODEL_INPUTS; input++) {
        const size_t bytes = model_input_bytes(&inputs, input, batch);
        if (!model_reads_input(description, layers, &inputs, input))
            continue;
        arrays->of[input] = calloc(1, bytes);
        if (!arrays->of[input])
            return error_memory(error, bytes, "the input of a micro-batch");
        const int64_t value = input == INPUT_LENGTHS ? inputs.most[input] : inputs.least[input];
        for (size_t i = 0; value > 0 && i < batch * inputs.elements[input]; i++)
            ((int32_t *)arrays->of[input])[i] = (int32_t)value;
    }
    return WEFT_OK;
}

void model_arrays_free(struct model_arrays *arrays)
{
    for (enum model_input input = 0; input < MODEL_INPUTS; input++)
        free(arrays->of[input]);
    *arrays = (struct model_arrays){0};
}
