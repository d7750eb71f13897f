/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions on the processor, as products of gathered rows and packed weights (training/tensor/kernels/images.h): cut into
 * tiles, and these into parts, by shape and kernel set alone.
 */
#include "training/tensor/cpu/convolution.h"
#include "training/tensor/cpu/image_norms.h"

#include <omp.h>
#include <string.h>

#define WEIGHT_ITEMS 48                /* pieces that the gradient of weights is cut into, or more */
#define WEIGHT_SUMS  ((size_t)4 << 20) /* floats of sums in all parts of it, at most */

static size_t parts_for(size_t tiles, size_t most)
{
    return tiles < most ? tiles : most;
}

static size_t convolution_divide_up(size_t count, size_t by)
{
    return (count + by - 1) / by;
}

/* ---- the matrices ---- */

static struct gather gather_forward(const struct convolution *shape)
{
    struct gather gather = {.height = convolution_height(shape),
                            .width = convolution_width(shape),
                            .step = shape->stride,
                            .source_height = shape->height,
                            .source_width = shape->width,
                            .taps = shape->kernel * shape->kernel,
                            .runs = true};
    for (size_t t = 0; t < gather.taps; t++) {
        gather.y[t] = (int16_t)((int)(t / shape->kernel) - (int)shape->padding);
        gather.x[t] = (int16_t)((int)(t % shape->kernel) - (int)shape->padding);
    }
    return gather;
}

static struct packing packing_forward(const struct convolution *shape)
{
    struct packing packing = {.columns = shape->outputs,
                              .channels = shape->inputs,
                              .taps = shape->kernel * shape->kernel,
                              .column = shape->inputs * shape->kernel * shape->kernel,
                              .channel = shape->kernel * shape->kernel};
    for (size_t t = 0; t < packing.taps; t++)
        packing.places[t] = (uint8_t)t;
    return packing;
}

/* Positions phase, phase + stride, ... below length. */
static size_t positions_of_phase(size_t length, size_t stride, size_t phase)
{
    return phase < length ? (length - phase + stride - 1) / stride : 0;
}

/*
 * The gradient of the input, of positions (phase_y + y stride, phase_x + x stride). Position i of the input is tap r of
 * position (i + padding - r) / stride of the output, where that is whole.
 */
static void gather_backward(const struct convolution *shape, size_t phase_y, size_t phase_x, struct gather *gather,
                            struct packing *packing, struct scatter *scatter)
{
    const int stride = (int)shape->stride, kernel = (int)shape->kernel, padding = (int)shape->padding;
    *gather = (struct gather){.height = positions_of_phase(shape->height, shape->stride, phase_y),
                              .width = positions_of_phase(shape->width, shape->stride, phase_x),
                              .step = 1,
                              .source_height = convolution_height(shape),
                              .source_width = convolution_width(shape)};
    *packing = (struct packing){.columns = shape->inputs,
                                .channels = shape->outputs,
                                .column = shape->kernel * shape->kernel,
                                .channel = shape->inputs * shape->kernel * shape->kernel};
    *scatter = (struct scatter){
        .height = shape->height, .width = shape->width, .step = shape->stride, .first_y = phase_y, .first_x = phase_x};
    for (int r = 0; r < kernel; r++)
        for (int s = 0; s < kernel; s++) {
            const int y = (int)phase_y + padding - r, x = (int)phase_x + padding - s;
            if (y % stride || x % stride)
                continue;
            gather->y[gather->taps] = (int16_t)(y / stride);
            gather->x[gather->taps] = (int16_t)(x / stride);
            packing->places[gather->taps++] = (uint8_t)(r * kernel + s);
        }
    packing->taps = gather->taps;
}

/* Pack all weights into `packed`. */
static void pack_all(struct cpu *cpu, const struct packing *packing, const void *weights, float *packed)
{
    struct device *device = &cpu->device;
    FOR_EACH_PART(part, convolution_divide_up(packing->columns, cpu->kernels->images.panel), 1, device->threads)
        cpu->kernels->images.pack(packing, part.first, part.count, weights, packed);
}

static size_t packed_floats(const struct cpu *cpu, const struct convolution *shape, size_t columns, size_t inner)
{
    const size_t panel = cpu->kernels->images.panel;
    return room_floats(convolution_divide_up(columns, panel) * panel * inner * shape->kernel * shape->kernel);
}

/* ---- products ---- */

/* All tiles of a product, cut into sums->parts parts from `first_part` on. */
struct tiled_product {
    size_t rows; /* of all images */
    struct gather gather;
    struct scatter scatter;
    const struct image_source *source;
    const float *packed;
    const struct image_sink *sink;
    float *tiles; /* scratch of each thread */
    size_t tile_stride;
};

static size_t product_tiles(const struct cpu *cpu, size_t rows, size_t columns)
{
    return convolution_divide_up(rows, cpu->kernels->images.tile_rows(columns));
}

static void run_product(struct cpu *cpu, const struct tiled_product *product, int count,
                        const struct image_parts *parts, int first_part, size_t *rows_of_parts)
{
    struct device *device = &cpu->device;
    const size_t edge = cpu->kernels->images.tile_rows(product->sink->channels),
                 tiles = product_tiles(cpu, product->rows, product->sink->channels);
    FOR_EACH_PART(part, tiles, 1, count) {
        float *scratch = product->tiles + (size_t)omp_get_thread_num() * product->tile_stride;
        struct image_sums sums = image_part(parts, first_part + i);
        const size_t last = (part.first + part.count) * edge, end = last < product->rows ? last : product->rows;
        for (size_t row = part.first * edge; row < end; row += edge)
            cpu->kernels->images.product_rows(&product->gather, product->source, product->packed, row,
                                              end - row < edge ? end - row : edge, &product->scatter, product->sink,
                                              &sums, scratch);
        rows_of_parts[first_part + i] = part.count ? end - part.first * edge : 0;
    }
}

static void dense_forward(struct cpu *cpu, const struct convolution *shape, const void *x,
                          const struct batch_norm *before, const void *weights, void *out,
                          const struct batch_norm *after)
{
    const struct gather gather = gather_forward(shape);
    const struct packing packing = packing_forward(shape);
    const size_t rows = convolution_rows_out(shape);
    const int count = (int)parts_for(product_tiles(cpu, rows, shape->outputs), IMAGE_PARTS);
    const size_t tile = room_floats(cpu->kernels->images.tile_scratch(&gather, shape->inputs, shape->outputs));
    size_t rows_of_parts[IMAGE_PARTS], stride;
    float *room =
        scratch_reserve(cpu, 1,
                        packed_floats(cpu, shape, shape->outputs, shape->inputs) + image_factors_floats(shape->inputs) +
                            image_parts_floats(count, shape->outputs) + tile * (size_t)cpu->device.threads,
                        &stride);
    if (!room)
        return;
    float *packed = room_take(&room, packed_floats(cpu, shape, shape->outputs, shape->inputs));
    pack_all(cpu, &packing, weights, packed);
    const struct image_source source = image_source_of(x, shape->inputs, before, &room);
    const struct image_sink sink = image_sink_of(out, convolution_rows_out(shape), shape->outputs, after);
    const struct image_parts parts = image_parts_take(count, shape->outputs, &room);
    const struct tiled_product product = {
        .rows = rows,
        .gather = gather,
        .scatter = {.height = gather.height, .width = gather.width, .step = 1},
        .source = &source,
        .packed = packed,
        .sink = &sink,
        .tiles = room,
        .tile_stride = tile,
    };
    run_product(cpu, &product, count, &parts, 0, rows_of_parts);
    if (sink.mode == SINK_STATISTICS)
        image_statistics(&parts, rows_of_parts, after);
}

static void dense_backward_input(struct cpu *cpu, const struct convolution *shape, const void *weights,
                                 const void *gradient, const void *out, const struct batch_norm *after, const void *x,
                                 const struct batch_norm *before, void *gradient_x)
{
    const size_t phases = shape->stride * shape->stride, most = phases < IMAGE_PARTS ? IMAGE_PARTS / phases : 1;
    const int all = (int)(most * phases);
    const struct gather whole = gather_forward(shape);
    const size_t tile = room_floats(cpu->kernels->images.tile_scratch(&whole, shape->outputs, shape->inputs));
    size_t stride;
    float *room = scratch_reserve(
        cpu, 1,
        packed_floats(cpu, shape, shape->inputs, shape->outputs) + image_factors_floats(shape->inputs) +
            image_factors_floats(shape->outputs) + image_parts_floats(all, shape->inputs) +
            room_floats((size_t)all * sizeof(size_t) / sizeof(float)) + tile * (size_t)cpu->device.threads,
        &stride);
    if (!room)
        return;
    float *packed = room_take(&room, packed_floats(cpu, shape, shape->inputs, shape->outputs));
    const struct image_source source =
        image_gradient_of(gradient, out, shape->outputs, convolution_rows_out(shape), after, &room);
    const struct image_sink sink =
        image_slope_of(gradient_x, convolution_rows_in(shape), shape->inputs, x, before, &room);
    const struct image_parts parts = image_parts_take(all, shape->inputs, &room);
    size_t *rows_of_parts = (void *)room_take(&room, (size_t)all * sizeof(size_t) / sizeof(float));
    struct tiled_product product = {
        .source = &source, .packed = packed, .sink = &sink, .tiles = room, .tile_stride = tile};
    for (size_t phase = 0; phase < phases; phase++) {
        struct packing packing;
        gather_backward(shape, phase / shape->stride, phase % shape->stride, &product.gather, &packing,
                        &product.scatter);
        product.rows = shape->batch * product.gather.height * product.gather.width;
        if (product.rows == 0)
            continue;
        pack_all(cpu, &packing, weights, packed);
        const size_t count = parts_for(product_tiles(cpu, product.rows, shape->inputs), most);
        run_product(cpu, &product, (int)count, &parts, (int)(phase * most), rows_of_parts);
    }
    if (before)
        image_gradients(&parts, before);
}

/* ---- the gradient of weights ---- */

/* Add the parts' sums, taps x inputs x columns, to the first part's. */
static void add_weight_parts(struct cpu *cpu, size_t rows, size_t width, size_t parts, float *sums)
{
    struct device *device = &cpu->device;
    FOR_EACH_PART(part, rows, 1, device->threads) {
        float *to = sums + part.first * width;
        for (size_t k = 1; k < parts; k++)
            cpu->kernels->add(part.count * width, to, to + k * rows * width, to);
    }
}

#define TRANSPOSED 16 /* columns at once: a line of the cache */

/* From taps x inputs rows of outputs to outputs x inputs x taps. */
static void write_weights(struct cpu *cpu, const struct convolution *shape, size_t width, const float *sums, float *out)
{
    struct device *device = &cpu->device;
    const size_t taps = shape->kernel * shape->kernel, inner = shape->inputs * taps;
    FOR_EACH_PART(part, shape->outputs, TRANSPOSED, device->threads)
        for (size_t o = part.first; o < part.first + part.count; o += TRANSPOSED) {
            const size_t rest = part.first + part.count - o, count = rest < TRANSPOSED ? rest : TRANSPOSED;
            for (size_t input = 0; input < shape->inputs; input++)
                for (size_t t = 0; t < taps; t++)
                    for (size_t j = 0; j < count; j++)
                        out[(o + j) * inner + input * taps + t] = sums[(t * shape->inputs + input) * width + o + j];
        }
}

static void dense_backward_weights(struct cpu *cpu, const struct convolution *shape, const void *x,
                                   const struct batch_norm *before, const void *gradient, const void *out,
                                   const struct batch_norm *after, void *gradient_weights)
{
    struct device *device = &cpu->device;
    const struct image_kernels *kernels = &cpu->kernels->images;
    const struct gather gather = gather_forward(shape);
    const size_t rows = convolution_rows_out(shape), columns = gather.taps * shape->inputs;
    const size_t width = convolution_divide_up(shape->outputs, kernels->panel) * kernels->panel;
    const size_t blocks = convolution_divide_up(columns, kernels->block),
                 tiles = convolution_divide_up(rows, IMAGE_TILE);
    size_t count = parts_for(convolution_divide_up(WEIGHT_ITEMS, blocks), (tiles + 1) / 2);
    while (count > 1 && count * columns * width > WEIGHT_SUMS)
        count--;
    const size_t tile = room_floats(kernels->tile_scratch(&gather, shape->inputs, shape->outputs));
    size_t stride;
    float *room = scratch_reserve(cpu, 1,
                                  room_floats(count * columns * width) + image_factors_floats(shape->inputs) +
                                      image_factors_floats(shape->outputs) + tile * (size_t)device->threads,
                                  &stride);
    if (!room)
        return;
    float *sums = room_take(&room, count * columns * width);
    const struct image_source source = image_source_of(x, shape->inputs, before, &room);
    const struct image_source slopes = image_gradient_of(gradient, out, shape->outputs, rows, after, &room);
    const int items = (int)(blocks * count);
    FOR_EACH_PART(item, blocks * count, 1, items) {
        const struct range part = part_of(tiles, 1, (int)(item.first % count), (int)count);
        const size_t column = item.first / count * kernels->block, rest = columns - column,
                     now = rest < kernels->block ? rest : kernels->block;
        float *own = sums + (item.first % count * columns + column) * width;
        memset(own, 0, now * width * sizeof *own);
        for (size_t row = part.first * IMAGE_TILE; row < (part.first + part.count) * IMAGE_TILE && row < rows;
             row += IMAGE_TILE)
            kernels->product_weights(&gather, &source, &slopes, column, now, row,
                                     rows - row < IMAGE_TILE ? rows - row : IMAGE_TILE, own,
                                     room + (size_t)omp_get_thread_num() * tile);
    }
    add_weight_parts(cpu, columns, width, count, sums);
    write_weights(cpu, shape, width, sums, gradient_weights);
}

/* ---- the device's functions ---- */

static void cpu_convolution_forward(struct device *device, const struct convolution *shape, const void *x,
                                    const struct batch_norm *before, const void *weights, void *out,
                                    const struct batch_norm *after)
{
    if (shape->depthwise)
        depthwise_run_forward(cpu_of(device), shape, x, before, weights, out, after);
    else
        dense_forward(cpu_of(device), shape, x, before, weights, out, after);
}

static void cpu_convolution_backward_input(struct device *device, const struct convolution *shape, const void *weights,
                                           const void *gradient, const void *out, const struct batch_norm *after,
                                           const void *x, const struct batch_norm *before, void *gradient_x)
{
    if (shape->depthwise)
        depthwise_run_backward_input(cpu_of(device), shape, weights, gradient, out, after, x, before, gradient_x);
    else
        dense_backward_input(cpu_of(device), shape, weights, gradient, out, after, x, before, gradient_x);
}

static void cpu_convolution_backward_weights(struct device *device, const struct convolution *shape, const void *x,
                                             const struct batch_norm *before, const void *gradient, const void *out,
                                             const struct batch_norm *after, void *gradient_weights)
{
    if (shape->depthwise)
        depthwise_run_backward_weights(cpu_of(device), shape, x, before, gradient, out, after, gradient_weights);
    else
        dense_backward_weights(cpu_of(device), shape, x, before, gradient, out, after, gradient_weights);
}

void cpu_convolutions_put(struct device *device)
{
    device->convolution_forward = cpu_convolution_forward;
    device->convolution_backward_input = cpu_convolution_backward_input;
    device->convolution_backward_weights = cpu_convolution_backward_weights;
}
