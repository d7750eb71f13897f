/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by reading and writing named tensors. */
#include "training/checkpoint/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t named_tensor_elements(const struct named_tensor *tensor)
{
    uint64_t elements = 1;
    bool overflow = false, empty = false;
    for (unsigned i = 0; i < tensor->dimensions; i++) {
        empty = empty || tensor->shape[i] == 0;
        overflow = __builtin_mul_overflow(elements, tensor->shape[i], &elements) || overflow;
    }
    return empty ? 0 : overflow ? UINT64_MAX : elements;
}

uint64_t named_tensor_held(const struct named_tensor *tensor)
{
    return tensor->count ? tensor->count : named_tensor_elements(tensor) - tensor->first;
}

bool named_tensor_is_whole(const struct named_tensor *tensor)
{
    return tensor->first == 0 && named_tensor_held(tensor) == named_tensor_elements(tensor);
}

bool named_tensor_same_shape(const struct named_tensor *a, const struct named_tensor *b)
{
    if (a->dimensions != b->dimensions)
        return false;
    for (unsigned i = 0; i < a->dimensions; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

static int tensor_by_name(const void *left, const void *right)
{
    const struct named_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

const char *named_tensors_sort(const struct named_tensor *tensors, size_t count, const struct named_tensor **order)
{
    for (size_t i = 0; i < count; i++)
        order[i] = &tensors[i];
    qsort((void *)order, count, sizeof *order, tensor_by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            return order[i]->name;
    return NULL;
}

char *named_tensor_shape_text(const struct named_tensor *tensor, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "[");
    for (unsigned i = 0; i < tensor->dimensions && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%" PRIu64, i ? ", " : "", tensor->shape[i]);
    if (length < size)
        snprintf(text + length, size - length, "]");
    return text;
}
