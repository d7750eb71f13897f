/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The processor's device, for its own files. cpu.c opens it and owns its memory; training/tensor/cpu/vectors.c and
 * training/tensor/cpu/layers.c divide the work of each kernel among the threads and combine the parts.
 *
 * A kernel's work is cut into one part per thread. Where parts are summed over rows, each part is a fixed number of rows
 * instead, and parts are added in order, so the bits do not depend on the number of threads.
 */
#ifndef WEFT_TRAINING_TENSOR_CPU_CPU_H
#define WEFT_TRAINING_TENSOR_CPU_CPU_H

#include "training/tensor/device.h"
#include "training/tensor/kernels/kernels.h"

struct cpu {
    struct device device;
    const struct kernels *kernels;
    struct cpu_matmuls *matmuls;
    bool casts;     /**< products are those of f32: kernel_set_casts() */
    float *scratch; /**< of all threads; the maximum that a kernel has needed so far */
    size_t scratch_floats;
    struct rotary_table {
        double base;
        size_t head_width, positions;
        float *table;     /**< one row per position: head_width / 2 cosines, then as many sines */
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

/** `floats` of scratch for each of `parts`, on separate cache lines; NULL, with the failure noted, without memory. */
float *scratch_reserve(struct cpu *cpu, int parts, size_t floats, size_t *stride);

struct range {
    size_t first, count;
};

/** Part `number` of `parts` of `count` items, cut at multiples of `grain`. */
static inline struct range part_of(size_t count, size_t grain, int number, int parts)
{
    size_t grains = (count + grain - 1) / grain;
    size_t first = grains * (size_t)number / (size_t)parts * grain;
    size_t last = grains * ((size_t)number + 1) / (size_t)parts * grain;
    first = first < count ? first : count;
    last = last < count ? last : count;
    return (struct range){first, last - first};
}

/**
 * Run the statement that follows for each of `parts` parts of `count` items, on the threads of `device`, a variable where
 * this is used. `part` names the range of items, and `i` is the number of the part.
 */
/* clang-format off */
#define FOR_EACH_PART(part, count, grain, parts)                                                                       \
    _Pragma("omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)")              \
    for (int i = 0; i < (parts); i++)                                                                                  \
        for (struct range part = part_of(count, grain, i, parts), *once = &part; once; once = NULL)
/* clang-format on */

/** Set the members of the device's table that these files implement. */
void cpu_vectors_put(struct device *device);
void cpu_layers_put(struct device *device);
void cpu_convolutions_put(struct device *device);
void cpu_image_layers_put(struct device *device);

#endif
