/* SPDX-License-Identifier: Apache-2.0 */
/** Sums of gradients, in f32; with gradients in bf16 each is rounded. */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_INTERNAL_ROUNDED_SUMS_H
#define WEFT_TRAINING_PARALLEL_SHARDING_INTERNAL_ROUNDED_SUMS_H

#include "training/tensor/device.h"

/** Round in place, if `rounds`. */
static inline void rounded_sums_round(struct device *device, bool rounds, float *array, size_t count)
{
    enum { PART = 4096 };
    uint16_t rounded[PART];
    for (size_t done = 0; rounds && done < count; done += PART) {
        const size_t part = count - done < PART ? count - done : PART;
        device->to_activations(device, part, array + done, rounded);
        device->from_activations(device, part, rounded, array + done);
    }
}

/** target += other. */
static inline void rounded_sums_add(struct device *device, bool rounds, float *target, const float *other, size_t count)
{
    device->add(device, count, target, other, target);
    rounded_sums_round(device, rounds, target, count);
}

#endif
