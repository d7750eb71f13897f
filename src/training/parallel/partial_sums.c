/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/internal/partial_sums.h"

#include <string.h>

weft_status partial_sums_open(struct partial_sums *sums, struct device *device, size_t elements, uint32_t contributions,
                              struct error *error)
{
    *sums = (struct partial_sums){.device = device, .elements = elements, .contributions = contributions};
    /* The highest level filled before the last contribution n - 1 arrives is that of the highest bit of n - 1. */
    for (uint32_t n = contributions - 1; n; n >>= 1) {
        void *array =
            device->allocate(device, elements * weft_type_size(device->type), "partial sums of gradients", error);
        if (!array) {
            partial_sums_close(sums);
            return WEFT_ERROR_MEMORY;
        }
        sums->arrays[sums->levels++] = array;
    }
    return WEFT_OK;
}

void partial_sums_close(struct partial_sums *sums)
{
    for (uint32_t l = 0; l < sums->levels; l++)
        sums->device->release(sums->device, sums->arrays[l]);
    sums->levels = 0;
}

void partial_sums_add(struct partial_sums *sums, void *array)
{
    struct device *device = sums->device;
    uint32_t level = 0;
    for (; sums->added >> level & 1; level++) {
        /* The level that receives the carry is written by the last addition, which saves the copy. */
        bool last = !(sums->added >> (level + 1) & 1);
        void *sum = last ? sums->arrays[level + 1] : array;
        device->add(device, sums->elements, sums->arrays[level], array, sum);
        if (sums->round)
            sums->round(sums->context, sum, 0, sums->elements);
    }
    if (level == 0)
        device->copy(device, sums->arrays[0], array, sums->elements * weft_type_size(device->type));
    sums->added++;
}

void partial_sums_complete(const struct partial_sums *sums, void *array, size_t first, size_t count)
{
    size_t offset = first * weft_type_size(sums->device->type);
    void *range = (char *)array + offset;
    for (uint32_t level = 0; level < sums->levels; level++) {
        if (!(sums->added >> level & 1))
            continue;
        sums->device->add(sums->device, count, (char *)sums->arrays[level] + offset, range, range);
        if (sums->round)
            sums->round(sums->context, array, first, count);
    }
}
