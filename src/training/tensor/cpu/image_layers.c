/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norms that are not applied while reading, pools, pixels and the loss of mixed samples, on the processor. */
#include "training/tensor/cpu/image_norms.h"

#include <math.h>
#include <omp.h>

static int image_parts_of(size_t count)
{
    return count < IMAGE_PARTS ? (int)count : IMAGE_PARTS;
}

static void cpu_pixels_to_activations(struct device *device, size_t count, const float *pixels, void *out)
{
    device->to_activations(device, count, pixels, out);
}

/* ---- batch norm ---- */

static void cpu_batch_norm_reciprocals(struct device *device, size_t channels, double epsilon, const void *variances,
                                       void *reciprocals)
{
    for (size_t j = 0; j < channels; j++)
        ((float *)reciprocals)[j] = (float)(1 / sqrt((double)((const float *)variances)[j] + epsilon));
}

/* The scatter of all rows is that of each part around its own mean, and that of the means around the common one. */
static void cpu_batch_norm_join(struct device *device, const struct batch_norm *norm, size_t rows, size_t parts,
                                size_t stride, const void *statistics)
{
    float *means = norm->means, *variances = norm->variances, *reciprocals = norm->reciprocals;
    const double freedom = rows > 1 ? (double)rows - 1 : 1, all = (double)rows * (double)parts;
    for (size_t j = 0; j < norm->channels; j++) {
        const float *of_channel = (const float *)statistics + j;
        double mean = 0, scatter = 0;
        for (size_t i = 0; i < parts; i++)
            mean += (double)of_channel[2 * i * stride];
        mean /= (double)parts;
        for (size_t i = 0; i < parts; i++) {
            const double distance = (double)of_channel[2 * i * stride] - mean;
            scatter += (double)of_channel[(2 * i + 1) * stride] * freedom + distance * distance * (double)rows;
        }
        means[j] = (float)mean;
        variances[j] = (float)(scatter / (all > 1 ? all - 1 : 1));
        reciprocals[j] = (float)(1 / sqrt(scatter / all + norm->epsilon));
    }
}

static void cpu_batch_norm_forward(struct device *device, const struct batch_norm *norm, size_t rows, const void *y,
                                   const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
    size_t stride;
    float *room = scratch_reserve(cpu, 1, image_factors_floats(norm->channels), &stride);
    if (!room)
        return;
    const struct image_source source = image_source_of(y, norm->channels, norm, &room);
    FOR_EACH_PART(part, rows, 1, device->threads)
        cpu->kernels->images.normalize(&source, part.first, part.count, x, out);
}

static void cpu_batch_norm_backward(struct device *device, const struct batch_norm *norm, size_t rows, const void *y,
                                    const void *x, void *gradient, void *d)
{
    struct cpu *cpu = cpu_of(device);
    const int count = image_parts_of((rows + IMAGE_TILE - 1) / IMAGE_TILE);
    size_t stride;
    float *room = scratch_reserve(
        cpu, 1, image_factors_floats(norm->channels) + image_parts_floats(count, norm->channels), &stride);
    if (!room)
        return;
    const struct image_sink sink = image_slope_of(d, rows, norm->channels, y, norm, &room);
    const struct image_parts parts = image_parts_take(count, norm->channels, &room);
    FOR_EACH_PART(part, rows, IMAGE_TILE, count) {
        struct image_sums sums = image_part(&parts, i);
        cpu->kernels->images.normalize_backward(&sink, part.first, part.count, x, gradient, &sums);
    }
    image_gradients(&parts, norm);
}

/* ---- pools ---- */

static void cpu_max_pool_forward(struct device *device, const struct max_pool *shape, const void *x,
                                 const struct batch_norm *before, void *out, uint8_t *places)
{
    struct cpu *cpu = cpu_of(device);
    size_t stride;
    float *room = scratch_reserve(cpu, 1, image_factors_floats(shape->channels), &stride);
    if (!room)
        return;
    const struct image_source source = image_source_of(x, shape->channels, before, &room);
    const size_t height = window_count(shape->height, shape->kernel, shape->stride, shape->padding);
    FOR_EACH_PART(part, shape->batch * height, 1, device->threads)
        cpu->kernels->images.max_pool_forward(shape, &source, part.first, part.count, out, places);
}

static void cpu_max_pool_backward(struct device *device, const struct max_pool *shape, const void *gradient,
                                  const uint8_t *places, const void *x, const struct batch_norm *before,
                                  void *gradient_x)
{
    struct cpu *cpu = cpu_of(device);
    const int count = image_parts_of(shape->batch);
    const size_t image_floats = room_floats(shape->height * shape->width * shape->channels + IMAGE_ROOM);
    size_t stride;
    float *room = scratch_reserve(cpu, 1,
                                  image_factors_floats(shape->channels) + image_parts_floats(count, shape->channels) +
                                      image_floats * (size_t)device->threads,
                                  &stride);
    if (!room)
        return;
    const struct image_sink sink =
        image_slope_of(gradient_x, shape->batch * shape->height * shape->width, shape->channels, x, before, &room);
    const struct image_parts parts = image_parts_take(count, shape->channels, &room);
    FOR_EACH_PART(part, shape->batch, 1, count) {
        struct image_sums sums = image_part(&parts, i);
        for (size_t image = part.first; image < part.first + part.count; image++)
            cpu->kernels->images.max_pool_backward(shape, image, gradient, places, &sink, &sums,
                                                   room + (size_t)omp_get_thread_num() * image_floats);
    }
    if (before)
        image_gradients(&parts, before);
}

static void cpu_average_pool_forward(struct device *device, const struct average_pool *shape, const void *x,
                                     const struct batch_norm *before, void *out)
{
    struct cpu *cpu = cpu_of(device);
    size_t stride;
    float *room = scratch_reserve(cpu, 1, image_factors_floats(shape->channels), &stride);
    if (!room)
        return;
    const struct image_source source = image_source_of(x, shape->channels, before, &room);
    FOR_EACH_PART(part, shape->batch, 1, device->threads)
        for (size_t image = part.first; image < part.first + part.count; image++)
            cpu->kernels->images.average_pool_forward(shape, image, &source, out);
}

static void cpu_average_pool_backward(struct device *device, const struct average_pool *shape, const void *gradient,
                                      const void *x, const struct batch_norm *before, void *gradient_x)
{
    struct cpu *cpu = cpu_of(device);
    const int count = image_parts_of(shape->batch);
    const size_t row = room_floats(shape->channels + IMAGE_ROOM);
    size_t stride;
    float *room = scratch_reserve(cpu, 1,
                                  image_factors_floats(shape->channels) + image_parts_floats(count, shape->channels) +
                                      row * (size_t)device->threads,
                                  &stride);
    if (!room)
        return;
    const struct image_sink sink =
        image_slope_of(gradient_x, shape->batch * shape->positions, shape->channels, x, before, &room);
    const struct image_parts parts = image_parts_take(count, shape->channels, &room);
    FOR_EACH_PART(part, shape->batch, 1, count) {
        struct image_sums sums = image_part(&parts, i);
        for (size_t image = part.first; image < part.first + part.count; image++)
            cpu->kernels->images.average_pool_backward(shape, image, gradient, &sink, &sums,
                                                       room + (size_t)omp_get_thread_num() * row);
    }
    if (before)
        image_gradients(&parts, before);
}

/* ---- loss ---- */

static void cpu_mixed_cross_entropy(struct device *device, size_t rows, size_t classes, size_t stride,
                                    const int32_t *targets, const float *shares, double smoothing, double scale,
                                    void *logits, double *losses, double *right)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads)
        cpu->kernels->images.mixed_cross_entropy(part.count, classes, stride, targets + 2 * part.first,
                                                 shares + 2 * part.first, (float)smoothing, (float)scale,
                                                 activation_at(cpu, logits, part.first * stride), losses + part.first,
                                                 right ? right + part.first : NULL);
}

void cpu_image_layers_put(struct device *device)
{
    device->pixels_to_activations = cpu_pixels_to_activations;
    device->batch_norm_reciprocals = cpu_batch_norm_reciprocals;
    device->batch_norm_join = cpu_batch_norm_join;
    device->batch_norm_forward = cpu_batch_norm_forward;
    device->batch_norm_backward = cpu_batch_norm_backward;
    device->max_pool_forward = cpu_max_pool_forward;
    device->max_pool_backward = cpu_max_pool_backward;
    device->average_pool_forward = cpu_average_pool_forward;
    device->average_pool_backward = cpu_average_pool_backward;
    device->mixed_cross_entropy = cpu_mixed_cross_entropy;
}
