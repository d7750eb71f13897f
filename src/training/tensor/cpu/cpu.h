/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the processor's device: what its files share. cpu.c opens it and has its memory, training/tensor/cpu/vectors.c and
 * training/tensor/cpu/layers.c divide the work of each kernel among its threads and put their parts together.
 *
 * A kernel's work is cut into one part for each thread, by the numbers alone. Where parts end in a sum over rows, they
 * are a number of rows each instead, and are added in their order: the bits do not depend on how many threads there
 * are.
 */
#ifndef WEFT_TRAINING_TENSOR_CPU_CPU_H
#define WEFT_TRAINING_TENSOR_CPU_CPU_H

#include "training/tensor/device.h"
#include "training/tensor/kernels/kernels.h"

struct cpu {
    struct device device;
    const struct kernels *kernels;
    struct cpu_matmuls *matmuls;
    float *scratch; /**< of all threads; grows beyond what a kernel once needed */
    size_t scratch_floats;
    struct turns {
        double base;
        size_t head_width, positions;
        float *table;     /**< a row a position: head_width / 2 cosines, then as many sines */
    } turns;              /**< of the last rotary positions */
    struct error failure; /**< the first since finish() */
};

static inline struct cpu *cpu_of(struct device *device)
{
    return (struct cpu *)device;
}

/** Element `index` of an array of activations. */
static inline void *activation_at(const struct cpu *cpu, const void *array, size_t index)
{
    return (char *)array + index * weft_type_size(cpu->kernels->activations);
}

/** `floats` of scratch for each of `parts`, on cache lines of its own; NULL, with the failure noted, if memory is out.
 */
float *scratch_reserve(struct cpu *cpu, int parts, size_t floats, size_t *stride);

struct range {
    size_t first, count;
};

/** Part `number` of `parts` of `count` things, cut at multiples of `grain`. */
static inline struct range part_of(size_t count, size_t grain, int number, int parts)
{
    size_t grains = (count + grain - 1) / grain;
    size_t first = grains * (size_t)number / (size_t)parts * grain;
    size_t last = grains * ((size_t)number + 1) / (size_t)parts * grain;
    first = first < count ? first : count;
    last = last < count ? last : count;
    return (struct range){first, last - first};
}

/** Put these files' kernels into the device's table. */
void cpu_vectors_put(struct device *device);
void cpu_layers_put(struct device *device);

#endif
