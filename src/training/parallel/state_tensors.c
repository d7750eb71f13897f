/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/state_tensors.h"

#include <stdio.h>
#include <stdlib.h>

static weft_status list_open(struct tensor_list *list, size_t room, struct error *error)
{
    *list = (struct tensor_list){.tensors = calloc(room, sizeof *list->tensors),
                                 .names = calloc(room, sizeof *list->names)};
    return list->tensors && list->names ? WEFT_OK
                                        : error_memory(error, room * sizeof *list->tensors, "a list of tensors");
}

void tensor_list_close(struct tensor_list *list)
{
    free(list->tensors);
    free(list->names);
    *list = (struct tensor_list){0};
}

static void tensor_list_add(struct tensor_list *list, const struct model_description *description, float *array,
                            const char *suffix)
{
    for (size_t i = 0; array && i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        char *name = list->names[list->count];
        struct named_tensor *tensor = &list->tensors[list->count++];
        snprintf(name, sizeof *list->names, "%s%s", parameter->name, suffix);
        tensor->name = name;
        tensor->type = WEFT_F32;
        tensor->dimensions = parameter->dimensions;
        for (size_t d = 0; d < parameter->dimensions; d++)
            tensor->shape[d] = parameter->shape[d];
        tensor->count = parameter->count;
        tensor->data = array + parameter->offset;
    }
}

weft_status tensor_lists_open(struct tensor_list *weights, struct tensor_list *moments,
                              const struct state_arrays *arrays, struct error *error)
{
    size_t count = arrays->description->parameter_count;
    *weights = *moments = (struct tensor_list){0};
    weft_status status = list_open(weights, count, error);
    if (status == WEFT_OK)
        status = list_open(moments, 2 * count, error);
    if (status != WEFT_OK)
        return status;
    tensor_list_add(weights, arrays->description, arrays->parameters, "");
    tensor_list_add(moments, arrays->description, arrays->first_moments,
                    arrays->second_moments ? ".exp_avg" : ".momentum_buffer"); /* PyTorch's names */
    tensor_list_add(moments, arrays->description, arrays->second_moments, ".exp_avg_sq");
    return WEFT_OK;
}

void tensor_list_cut(struct tensor_list *moments, const struct state_arrays *arrays, size_t first, size_t count)
{
    const struct model_description *description = arrays->description;
    size_t kept = 0;
    for (size_t i = 0; i < moments->count; i++) {
        const struct model_parameter *parameter = &description->parameters[i % description->parameter_count];
        float *array = i < description->parameter_count ? arrays->first_moments : arrays->second_moments;
        size_t begin = parameter->offset > first ? parameter->offset : first;
        size_t parameter_end = parameter->offset + parameter->count;
        size_t end = parameter_end < first + count ? parameter_end : first + count;
        if (begin >= end)
            continue;
        struct named_tensor piece = moments->tensors[i];
        piece.first = begin - parameter->offset;
        piece.count = end - begin;
        piece.data = array + (begin - first);
        moments->tensors[kept++] = piece;
    }
    moments->count = kept;
}

void tensor_list_select(struct tensor_list *list, const unsigned *writer_of, unsigned writer)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (writer_of[i] == writer)
            list->tensors[kept++] = list->tensors[i];
    list->count = kept;
}

/* ---- gathered on rank 0 ---- */

weft_status gathered_state_open(struct gathered_state *state, const struct shards *shards,
                                const struct state_arrays *own, struct error *error)
{
    *state = (struct gathered_state){.arrays = *own, .shard = *own};
    if (!shards->sharded || shards->rank != 0 || !own->first_moments)
        return WEFT_OK;
    const size_t arrays = own->second_moments ? 2 : 1;
    state->memory = calloc(arrays * shards->elements, sizeof *state->memory);
    if (!state->memory)
        return error_memory(error, arrays * shards->elements * sizeof *state->memory, "the whole optimizer state");
    state->arrays.first_moments = state->memory;
    if (own->second_moments)
        state->arrays.second_moments = state->memory + shards->elements;
    return WEFT_OK;
}

void gathered_state_close(struct gathered_state *state)
{
    free(state->memory);
    *state = (struct gathered_state){0};
}

weft_status gathered_state_scatter(const struct gathered_state *state, const struct shards *shards, struct error *error)
{
    const struct state_arrays *all = &state->arrays, *own = &state->shard;
    weft_status status = WEFT_OK;
    if (own->first_moments)
        status = shards_scatter(shards, all->first_moments, own->first_moments, error);
    if (status == WEFT_OK && own->second_moments)
        status = shards_scatter(shards, all->second_moments, own->second_moments, error);
    return status;
}

weft_status gathered_state_gather(const struct gathered_state *state, const struct shards *shards, struct error *error)
{
    const struct state_arrays *all = &state->arrays, *own = &state->shard;
    weft_status status = WEFT_OK;
    if (own->first_moments)
        status = shards_gather(shards, own->first_moments, all->first_moments, error);
    if (status == WEFT_OK && own->second_moments)
        status = shards_gather(shards, own->second_moments, all->second_moments, error);
    return status;
}
