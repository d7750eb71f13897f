/* SPDX-License-Identifier: Apache-2.0 */
#include "training/checkpoint/division.h"

#include <stdlib.h>

static uint64_t division_bytes_of(const struct named_tensor *tensor)
{
    return named_tensor_held(tensor) * weft_type_size(tensor->type);
}

/* Largest first; of equal ones the first in the list. */
static int checkpoint_division_by_bytes(const void *left, const void *right)
{
    const struct named_tensor *a = *(const struct named_tensor *const *)left,
                              *b = *(const struct named_tensor *const *)right;
    uint64_t a_bytes = division_bytes_of(a), b_bytes = division_bytes_of(b);
    if (a_bytes != b_bytes)
        return a_bytes > b_bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

weft_status division_by_bytes(const struct named_tensor *tensors, size_t count, unsigned writers, uint64_t *loads,
                              unsigned *writer_of, struct error *error)
{
    const struct named_tensor **order = malloc((count + 1) * sizeof *order);
    if (!order)
        return error_memory(error, (count + 1) * sizeof *order, "a list of tensors");
    for (size_t i = 0; i < count; i++)
        order[i] = &tensors[i];
    if (count)
        qsort((void *)order, count, sizeof *order, checkpoint_division_by_bytes);
    for (size_t i = 0; i < count; i++) {
        unsigned least = 0;
        for (unsigned writer = 1; writer < writers; writer++)
            if (loads[writer] < loads[least])
                least = writer;
        loads[least] += division_bytes_of(order[i]);
        writer_of[order[i] - tensors] = least;
    }
    free((void *)order);
    return WEFT_OK;
}

unsigned division_writers(uint64_t bytes, uint64_t least, unsigned most)
{
    uint64_t files = least ? bytes / least : most;
    return files < 1 ? 1 : files < most ? (unsigned)files : most;
}
