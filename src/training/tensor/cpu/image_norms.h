/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Batch norms as the kernels of the processor read and write them: factors of each channel, and sums over parts of the
 * rows. For the files of this directory.
 */
#ifndef WEFT_TRAINING_TENSOR_CPU_IMAGE_NORMS_H
#define WEFT_TRAINING_TENSOR_CPU_IMAGE_NORMS_H

#include "training/tensor/cpu/cpu.h"

#define IMAGE_PARTS 64 /* of rows whose sums are added, at most */

/** A part of scratch memory, aligned to 64 bytes, which `room` is moved past. */
static inline float *room_take(float **room, size_t floats)
{
    float *taken = *room;
    *room += (floats + 15) / 16 * 16;
    return taken;
}

/** Floats that room_take() uses up. */
static inline size_t room_floats(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

/** Floats for the factors of a batch norm of so many channels, read or written. */
static inline size_t image_factors_floats(size_t channels)
{
    return 3 * room_floats(channels);
}

/** How to read x, or the output of a batch norm of it. Takes room for the factors. */
struct image_source image_source_of(const void *x, size_t channels, const struct batch_norm *norm, float **room);

/** How to read a gradient, or that of y from the slope of its batch norm, which has `rows` rows. */
struct image_source image_gradient_of(const void *gradient, const void *y, size_t channels, size_t rows,
                                      const struct batch_norm *norm, float **room);

/** How to write an array whose batch norm follows, to gather its statistics. */
struct image_sink image_sink_of(void *out, size_t rows, size_t channels, const struct batch_norm *norm);

/** How to write the gradient of y, or the slope of its batch norm. */
struct image_sink image_slope_of(void *out, size_t rows, size_t channels, const void *y, const struct batch_norm *norm,
                                 float **room);

/** Sums of each of `parts` parts, one after another, in zeroed room. */
struct image_parts {
    int parts;
    size_t channels, stride;
    float *memory;
};

/** Floats that image_parts_take() takes. */
size_t image_parts_floats(int parts, size_t channels);
struct image_parts image_parts_take(int parts, size_t channels, float **room);

/** The sums of part `number`, for kernels. */
struct image_sums image_part(const struct image_parts *parts, int number);

/** Set the batch norm's statistics from sums of SINK_STATISTICS; part i has rows[i] rows, maybe 0. */
void image_statistics(const struct image_parts *parts, const size_t *rows, const struct batch_norm *norm);

/** Set the gradients of gain and bias from sums of SINK_SLOPE. */
void image_gradients(const struct image_parts *parts, const struct batch_norm *norm);

#endif
