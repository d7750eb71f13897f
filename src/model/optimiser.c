/* SPDX-License-Identifier: Apache-2.0 */
#include "model/optimiser.h"

#include <math.h>

/* The number of the last parameter that begins at or before `element`; the flat array begins with the first. */
static size_t parameter_at(const struct model_description *description, size_t element)
{
    size_t low = 0, high = description->parameter_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (description->parameters[middle].offset <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/*
 * A gap belongs to the parameter before it: its weights and gradients are 0 and AdamW keeps them so. Neighbours with
 * the same decay are updated in one call.
 */
void model_update(const struct model_description *description, struct device *device, const struct adamw *step,
                  size_t first, size_t count, void *parameters, const void *gradients, void *first_moments,
                  void *second_moments, void *narrowed)
{
    size_t size = weft_type_size(device->type), done = 0;
    struct adamw undecayed = *step;
    undecayed.weight_decay = 0;
    while (done < count) {
        size_t i = parameter_at(description, first + done), next = i + 1;
        bool decay = description->parameters[i].decay;
        while (next < description->parameter_count && description->parameters[next].decay == decay)
            next++;
        size_t end = next < description->parameter_count ? description->parameters[next].offset : description->elements;
        size_t length = (end < first + count ? end : first + count) - (first + done), skip = done * size;
        device->adamw(device, decay ? step : &undecayed, length, (char *)parameters + skip,
                      (const char *)gradients + skip, (char *)first_moments + skip, (char *)second_moments + skip,
                      narrowed ? (char *)narrowed + done * weft_type_size(device->activations) : NULL);
        done += length;
    }
}

double model_gradient_norm(struct device *device, size_t count, const void *gradients, double *sums)
{
    device->sum_of_squares(device, count, gradients, sums);
    return sqrt(tree_sum(sums, tree_blocks(count)));
}
