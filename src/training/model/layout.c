/* SPDX-License-Identifier: Apache-2.0 */
/* Where parameters lie in the flat array: groups, offsets, and which parameters a rank keeps. */
#include "training/model/layer.h"

#include <stdlib.h>

/* ---- groups ---- */

void description_tie(struct model_description *description, size_t table)
{
    description->tied = table;
    description->tied_users = 2;
    description->layers[description->layer_count - 1].uses_tied = true;
    for (size_t i = 0; i < description->layer_count; i++)
        if (description->layers[i].parameter == table && description->layers[i].parameter_count)
            description->layers[i].uses_tied = true;
}

weft_status description_group_parameters(struct model_description *description, struct error *error)
{
    const size_t room = description->layer_count + 1;
    description->groups = calloc(room, sizeof *description->groups);
    if (!description->groups)
        return error_memory(error, room * sizeof *description->groups, "a model's groups of parameters");
    for (size_t i = 0; i < description->layer_count; i++) {
        size_t first = description->layers[i].parameter, count = description->layers[i].parameter_count;
        if (count && first == description->tied) {
            description->groups[description->group_count++] =
                (struct model_group){.parameter = first++, .parameter_count = 1};
            count--;
        }
        if (count)
            description->groups[description->group_count++] =
                (struct model_group){.parameter = first, .parameter_count = count};
    }
    return WEFT_OK;
}

size_t model_layer_group(const struct model_description *description, size_t layer)
{
    const struct model_group *groups = description->groups;
    const size_t first = description->layers[layer].parameter, end = first + description->layers[layer].parameter_count;
    size_t low = 0, high = description->group_count; /* the first group of the layer is in [low, high] */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (groups[middle].parameter < first)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < description->group_count && groups[low].parameter == description->tied)
        low++; /* the table comes first */
    return low < description->group_count && groups[low].parameter < end ? low : NO_PARAMETER;
}

size_t model_layer_width(const struct model_description *description, size_t layer)
{
    return description->layers[layer].width;
}

bool model_layer_reads_values(const struct model_description *description, size_t layer)
{
    return description->layers[layer].kind->reads_values;
}

bool model_layer_uses_tied(const struct model_description *description, size_t layer)
{
    return description->layers[layer].uses_tied;
}

size_t model_tied_group(const struct model_description *description)
{
    for (size_t i = 0; i < description->group_count; i++)
        if (description->groups[i].parameter == description->tied)
            return i;
    return NO_PARAMETER;
}

/* ---- offsets ---- */

static size_t layout_round_up(size_t elements, size_t multiple)
{
    return (elements + multiple - 1) / multiple * multiple;
}

/* The counts of the whole network, which do not depend on the layers that are kept. */
static void layout_count_weights(struct model_description *description)
{
    const size_t count = description->parameter_count;
    description->weights = description->frozen_weights = description->statistics = 0;
    description->first_trainable = count;
    for (size_t i = 0; i < count; i++) {
        struct model_parameter *parameter = &description->parameters[i];
        parameter->count = 1;
        for (size_t d = 0; d < parameter->dimensions; d++)
            parameter->count *= parameter->shape[d];
        const size_t whole = division_counts_of(description, i).whole;
        *(parameter->statistic ? &description->statistics : &description->weights) += whole;
        if (parameter->frozen)
            description->frozen_weights += parameter->statistic ? 0 : whole;
        else if (description->first_trainable == count)
            description->first_trainable = i;
    }
}

/* Blocks of all layers and the largest rank, which do not depend on the layers that are kept either. */
static void layout_number_blocks(struct model_description *description)
{
    struct model_group *group = description->groups; /* of the current parameter, unless there are none */
    size_t elements = 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        if (group && i == group->parameter)
            group->block = elements / DEVICE_SQUARES_BLOCK;
        elements += layout_round_up(division_counts_of(description, i).largest, MODEL_ALIGNMENT);
        if (group && i + 1 == group->parameter + group->parameter_count) {
            elements = layout_round_up(elements, DEVICE_SQUARES_BLOCK);
            group++;
        }
    }
    description->blocks = layout_round_up(elements, DEVICE_SQUARES_BLOCK) / DEVICE_SQUARES_BLOCK;
}

/* The flat arrays of the parameters that are kept. */
static void layout_place_parameters(struct model_description *description)
{
    struct model_group *group = description->groups;
    size_t elements = 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        struct model_parameter *parameter = &description->parameters[i];
        if (group && i == group->parameter)
            group->offset = elements;
        parameter->offset = elements;
        elements += parameter->absent ? 0 : layout_round_up(parameter->count, MODEL_ALIGNMENT);
        if (group && i + 1 == group->parameter + group->parameter_count) {
            elements = layout_round_up(elements, DEVICE_SQUARES_BLOCK);
            group->count = elements - group->offset;
            group++;
        }
    }
    description->elements = description->gradient_elements = elements;
    if (!description->groups) /* a program's list of parameters */
        description->tied = NO_PARAMETER;
    else if (description->tied_users == 2)
        description->gradient_elements += description->groups[model_tied_group(description)].count;
}

void model_lay_out_parameters(struct model_description *description)
{
    layout_count_weights(description);
    layout_number_blocks(description);
    layout_place_parameters(description);
}

void model_keep_layers(struct model_description *description, const bool *kept)
{
    description->tied_users = 0;
    for (size_t i = 0; i < description->parameter_count; i++)
        description->parameters[i].absent = true;
    for (size_t i = 0; i < description->layer_count; i++) {
        const struct layer *layer = &description->layers[i];
        if (!kept[i])
            continue;
        for (size_t k = 0; k < layer->parameter_count; k++)
            description->parameters[layer->parameter + k].absent = false;
        if (layer->uses_tied) {
            description->parameters[description->tied].absent = false;
            description->tied_users++;
        }
    }
    layout_place_parameters(description);
}
