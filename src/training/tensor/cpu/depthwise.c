/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions on the processor: cut into parts of images, and blocks of channels. */
#include "training/tensor/cpu/convolution.h"
#include "training/tensor/cpu/image_norms.h"

#include <omp.h>
#include <string.h>

/* Parts of images whose sums are added. */
static int depthwise_parts(size_t batch)
{
    return batch < IMAGE_PARTS ? (int)batch : IMAGE_PARTS;
}

static struct depthwise depthwise_of(const struct convolution *shape)
{
    return (struct depthwise){.height = shape->height,
                              .width = shape->width,
                              .channels = shape->inputs,
                              .out_height = convolution_height(shape),
                              .out_width = convolution_width(shape),
                              .kernel = shape->kernel,
                              .stride = shape->stride,
                              .padding = shape->padding};
}

/* The weights with the channels of a tap next to each other, `mirrored` or not. Takes twice their room. */
static const float *depthwise_weights_of(struct cpu *cpu, const struct convolution *shape, const void *weights,
                                         bool mirrored, float **room)
{
    const size_t taps = shape->kernel * shape->kernel, channels = shape->inputs;
    float *to = room_take(room, taps * channels), *from = room_take(room, taps * channels);
    cpu->kernels->from_activations(taps * channels, weights, from);
    for (size_t j = 0; j < channels; j++)
        for (size_t t = 0; t < taps; t++)
            to[(mirrored ? taps - 1 - t : t) * channels + j] = from[j * taps + t];
    return to;
}

/* A range of images and channels. */
struct depthwise_item {
    int part;
    struct range images;
    size_t channel, channels;
};

static size_t depthwise_blocks(const struct cpu *cpu, const struct depthwise *depthwise)
{
    const size_t block = cpu->kernels->images.depthwise_block(depthwise);
    return (depthwise->channels + block - 1) / block;
}

/* Item `number` of parts x blocks. */
static struct depthwise_item depthwise_item_of(const struct cpu *cpu, const struct depthwise *depthwise, size_t batch,
                                               int parts, size_t number)
{
    const size_t block = cpu->kernels->images.depthwise_block(depthwise), blocks = depthwise_blocks(cpu, depthwise);
    struct depthwise_item item = {.part = (int)(number / blocks), .channel = number % blocks * block};
    const size_t rest = depthwise->channels - item.channel;
    item.images = part_of(batch, 1, item.part, parts);
    item.channels = rest < block ? rest : block;
    return item;
}

/* A pass from one array of activations to another. */
struct depthwise_pass {
    struct depthwise shape;
    size_t batch;
    bool backward; /* of a stride above 1 */
    const struct image_source *source;
    const struct image_sink *sink;
    float *lines; /* scratch of each thread */
    size_t lines_stride;
};

static void run_pass(struct cpu *cpu, const struct depthwise_pass *pass, const struct image_parts *parts)
{
    struct device *device = &cpu->device;
    const size_t all = (size_t)parts->parts * depthwise_blocks(cpu, &pass->shape);
    const int items = (int)all;
    const struct image_kernels *kernels = &cpu->kernels->images;
    FOR_EACH_PART(range, all, 1, items) {
        const struct depthwise_item item = depthwise_item_of(cpu, &pass->shape, pass->batch, parts->parts, range.first);
        float *lines = pass->lines + (size_t)omp_get_thread_num() * pass->lines_stride;
        struct image_sums sums = image_part(parts, item.part);
        for (size_t image = item.images.first; image < item.images.first + item.images.count; image++)
            (pass->backward ? kernels->depthwise_backward : kernels->depthwise_forward)(
                &pass->shape, pass->source, image, item.channel, item.channels, pass->sink, &sums, lines);
    }
}

void depthwise_run_forward(struct cpu *cpu, const struct convolution *shape, const void *x,
                           const struct batch_norm *before, const void *weights, void *out,
                           const struct batch_norm *after)
{
    struct depthwise_pass pass = {.shape = depthwise_of(shape), .batch = shape->batch};
    const int count = depthwise_parts(shape->batch);
    size_t rows_of_parts[IMAGE_PARTS], stride;
    pass.lines_stride = room_floats(cpu->kernels->images.depthwise_scratch(&pass.shape));
    float *room =
        scratch_reserve(cpu, 1,
                        2 * room_floats(convolution_weights(shape)) + image_factors_floats(shape->inputs) +
                            image_parts_floats(count, shape->inputs) + pass.lines_stride * (size_t)cpu->device.threads,
                        &stride);
    if (!room)
        return;
    pass.shape.weights = depthwise_weights_of(cpu, shape, weights, false, &room);
    const struct image_source source = image_source_of(x, shape->inputs, before, &room);
    const struct image_sink sink = image_sink_of(out, convolution_rows_out(shape), shape->outputs, after);
    const struct image_parts parts = image_parts_take(count, shape->outputs, &room);
    pass.source = &source;
    pass.sink = &sink;
    pass.lines = room;
    run_pass(cpu, &pass, &parts);
    for (int i = 0; i < count; i++)
        rows_of_parts[i] = part_of(shape->batch, 1, i, count).count * pass.shape.out_height * pass.shape.out_width;
    if (sink.mode == SINK_STATISTICS)
        image_statistics(&parts, rows_of_parts, after);
}

/* The convolution by mirrored weights that gives the gradient of the input, with stride 1. */
static struct depthwise depthwise_mirrored(const struct depthwise *of)
{
    return (struct depthwise){.height = of->out_height,
                              .width = of->out_width,
                              .channels = of->channels,
                              .out_height = of->height,
                              .out_width = of->width,
                              .kernel = of->kernel,
                              .stride = 1,
                              .padding = of->kernel - 1 - of->padding};
}

void depthwise_run_backward_input(struct cpu *cpu, const struct convolution *shape, const void *weights,
                                  const void *gradient, const void *out, const struct batch_norm *after, const void *x,
                                  const struct batch_norm *before, void *gradient_x)
{
    struct depthwise_pass pass = {.shape = depthwise_of(shape), .batch = shape->batch, .backward = shape->stride > 1};
    if (!pass.backward)
        pass.shape = depthwise_mirrored(&pass.shape);
    const int count = depthwise_parts(shape->batch);
    size_t stride;
    pass.lines_stride = room_floats(cpu->kernels->images.depthwise_scratch(&pass.shape));
    float *room =
        scratch_reserve(cpu, 1,
                        2 * room_floats(convolution_weights(shape)) + 2 * image_factors_floats(shape->inputs) +
                            image_parts_floats(count, shape->inputs) + pass.lines_stride * (size_t)cpu->device.threads,
                        &stride);
    if (!room)
        return;
    pass.shape.weights = depthwise_weights_of(cpu, shape, weights, !pass.backward, &room);
    const struct image_source source =
        image_gradient_of(gradient, out, shape->outputs, convolution_rows_out(shape), after, &room);
    const struct image_sink sink =
        image_slope_of(gradient_x, convolution_rows_in(shape), shape->inputs, x, before, &room);
    const struct image_parts parts = image_parts_take(count, shape->inputs, &room);
    pass.source = &source;
    pass.sink = &sink;
    pass.lines = room;
    run_pass(cpu, &pass, &parts);
    if (before)
        image_gradients(&parts, before);
}

void depthwise_run_backward_weights(struct cpu *cpu, const struct convolution *shape, const void *x,
                                    const struct batch_norm *before, const void *gradient, const void *out,
                                    const struct batch_norm *after, void *gradient_weights)
{
    struct device *device = &cpu->device;
    const struct image_kernels *kernels = &cpu->kernels->images;
    const struct depthwise depthwise = depthwise_of(shape);
    const int parts = depthwise_parts(shape->batch);
    const size_t weights = convolution_weights(shape), own = room_floats(weights),
                 lines = room_floats(kernels->depthwise_scratch(&depthwise)), taps = shape->kernel * shape->kernel;
    size_t stride;
    float *room = scratch_reserve(
        cpu, 1, (size_t)parts * own + 2 * image_factors_floats(shape->inputs) + lines * (size_t)device->threads,
        &stride);
    if (!room)
        return;
    float *sums = room_take(&room, (size_t)parts * own), *to = gradient_weights;
    memset(sums, 0, (size_t)parts * own * sizeof *sums);
    const struct image_source source = image_source_of(x, shape->inputs, before, &room);
    const struct image_source slopes =
        image_gradient_of(gradient, out, shape->outputs, convolution_rows_out(shape), after, &room);
    const size_t all = (size_t)parts * depthwise_blocks(cpu, &depthwise);
    const int items = (int)all;
    FOR_EACH_PART(range, all, 1, items) {
        const struct depthwise_item item = depthwise_item_of(cpu, &depthwise, shape->batch, parts, range.first);
        for (size_t image = item.images.first; image < item.images.first + item.images.count; image++)
            kernels->depthwise_weights(&depthwise, &source, &slopes, image, item.channel, item.channels,
                                       sums + (size_t)item.part * own, room + (size_t)omp_get_thread_num() * lines);
    }
    for (int i = 1; i < parts; i++)
        cpu->kernels->add(weights, sums, sums + (size_t)i * own, sums);
    for (size_t j = 0; j < shape->inputs; j++)
        for (size_t t = 0; t < taps; t++)
            to[j * taps + t] = sums[t * shape->inputs + j];
}
