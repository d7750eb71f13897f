/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolutions, line by line, of so many channels that the lines of a window stay in the cache. Each line is read and
 * normalized once, into a ring of `kernel` lines with the padding around them.
 */

#define LINES_FLOATS    (48 * 1024) /* of the lines of a window, at most, unless a block is DEPTHWISE_LEAST wide */
#define DEPTHWISE_LEAST 32          /* channels: two lines of the cache */

/* A ring of lines: line y is at y % kernel. */
struct line_ring {
    size_t kernel, margin; /* positions before and after a line, which are 0 */
    size_t width, stride;  /* positions of a line, floats of a position */
    size_t line;           /* floats of a line with margins */
    float *lines;
};

static float *ring_line(const struct line_ring *ring, ptrdiff_t y)
{
    const size_t kernel = ring->kernel; /* a multiple is added, as y may be as low as -kernel */
    return ring->lines + (size_t)(y + (ptrdiff_t)kernel) % kernel * ring->line;
}

static struct line_ring ring_begin(size_t kernel, size_t margin, size_t width, size_t stride, float *scratch)
{
    struct line_ring ring = {.kernel = kernel,
                             .margin = margin,
                             .width = width,
                             .stride = stride,
                             .line = (width + 2 * margin) * stride,
                             .lines = scratch};
    memset(ring.lines, 0, kernel * ring.line * sizeof *ring.lines);
    return ring;
}

/* Read line y of an image of `height` lines; those outside of it are 0. */
static void ring_read(const struct line_ring *ring, const struct image_source *source, size_t image, ptrdiff_t y,
                      size_t height, size_t first, size_t count)
{
    float *to = ring_line(ring, y) + ring->margin * ring->stride;
    if (y < 0 || y >= (ptrdiff_t)height)
        memset(to, 0, ring->width * ring->stride * sizeof *to);
    else
        source_rows(source, (image * height + (size_t)y) * ring->width, ring->width, first, count, to, ring->stride);
}

static size_t depthwise_block(const struct depthwise *shape)
{
    const size_t most = LINES_FLOATS / (shape->kernel * (shape->width + 2 * shape->padding)) / 16 * 16;
    const size_t width = most < DEPTHWISE_LEAST ? DEPTHWISE_LEAST : most;
    const size_t blocks = (shape->channels + width - 1) / width;
    return ((shape->channels + blocks - 1) / blocks + 15) / 16 * 16;
}

static size_t depthwise_scratch(const struct depthwise *shape)
{
    const size_t longest = shape->width > shape->out_width ? shape->width : shape->out_width;
    return ((shape->kernel * (longest + 2 * shape->kernel)) + shape->width + shape->out_width) * depthwise_block(shape);
}

/* ---- forward ---- */

/* Products of a position's window: `kernel` is a constant where it is small, so that weights stay in registers. */
VECTOR_FUNCTION void depthwise_line(const size_t kernel, const float *const lines[], const struct depthwise *shape,
                                    size_t first, size_t count, size_t stride, float *out)
{
    for (size_t c = 0; c < count; c += LANES) {
        vector weights[9];
        if (kernel <= 3)
#pragma GCC unroll 9
            for (size_t t = 0; t < kernel * kernel; t++)
                weights[t] = vector_load_part(shape->weights + t * shape->channels + first + c, count - c, 0);
        for (size_t x = 0; x < shape->out_width; x++) {
            vector sum = {0};
            const size_t at = x * shape->stride * stride + c;
            if (kernel <= 3) {
#pragma GCC unroll 3
                for (size_t r = 0; r < kernel; r++)
#pragma GCC unroll 3
                    for (size_t s = 0; s < kernel; s++)
                        sum =
                            vector_multiply_add(vector_load(lines[r] + at + s * stride), weights[r * kernel + s], sum);
            } else {
                const float *weight = shape->weights + first + c;
                for (size_t r = 0; r < kernel; r++)
                    for (size_t s = 0; s < kernel; s++, weight += shape->channels)
                        sum = vector_multiply_add(vector_load(lines[r] + at + s * stride),
                                                  vector_load_part(weight, count - c, 0), sum);
            }
            vector_store(out + x * stride + c, sum);
        }
    }
}

static void depthwise_forward(const struct depthwise *shape, const struct image_source *source, size_t image,
                              size_t first, size_t count, const struct image_sink *sink, struct image_sums *sums,
                              float *scratch)
{
    const size_t stride = (count + LANES - 1) / LANES * LANES, kernel = shape->kernel;
    const struct line_ring ring = ring_begin(kernel, shape->padding, shape->width, stride, scratch);
    float *results = scratch + kernel * ring.line;
    ptrdiff_t next = -(ptrdiff_t)shape->padding;
    for (size_t y = 0; y < shape->out_height; y++) {
        const ptrdiff_t top = (ptrdiff_t)(y * shape->stride) - (ptrdiff_t)shape->padding;
        const float *lines[CONVOLUTION_KERNEL_MOST];
        for (next = next < top ? top : next; next < top + (ptrdiff_t)kernel; next++)
            ring_read(&ring, source, image, next, shape->height, first, count);
        for (size_t r = 0; r < kernel; r++)
            lines[r] = ring_line(&ring, top + (ptrdiff_t)r);
        for (size_t x = 0; x < shape->out_width; x++)
            sink_prefetch(sink, (image * shape->out_height + y) * shape->out_width + x, first, count);
        if (kernel == 3)
            depthwise_line(3, lines, shape, first, count, stride, results);
        else
            depthwise_line(kernel, lines, shape, first, count, stride, results);
        sink_rows(sink, (image * shape->out_height + y) * shape->out_width, shape->out_width, first, count, results,
                  stride, sums);
    }
}

/* ---- the gradient of the input, of strides above 1; of stride 1 it is a convolution by the mirrored weights ---- */

/* The taps of which an element of a line is made: positions of lines of the gradient. */
struct depthwise_taps {
    size_t count;
    const float *from[TAPS_MOST];
    const float *weights[TAPS_MOST];
};

/* Taps of columns phase, phase + stride ... of line y. */
static struct depthwise_taps depthwise_taps_of(const struct depthwise *shape, const struct line_ring *ring, size_t y,
                                               size_t phase, size_t first)
{
    struct depthwise_taps taps = {0};
    const ptrdiff_t step = (ptrdiff_t)shape->stride;
    for (size_t r = 0; r < shape->kernel; r++)
        for (size_t s = 0; s < shape->kernel; s++) {
            const ptrdiff_t down = (ptrdiff_t)(y + shape->padding) - (ptrdiff_t)r,
                            right = (ptrdiff_t)(phase + shape->padding) - (ptrdiff_t)s;
            if (down < 0 || down % step || down / step >= (ptrdiff_t)shape->out_height || right % step)
                continue;
            taps.from[taps.count] =
                ring_line(ring, down / step) + (size_t)(right / step + (ptrdiff_t)ring->margin) * ring->stride;
            taps.weights[taps.count++] = shape->weights + (r * shape->kernel + s) * shape->channels + first;
        }
    return taps;
}

VECTOR_FUNCTION void depthwise_add_taps(const struct depthwise_taps *taps, const size_t tap_count, size_t positions,
                                        size_t count, size_t stride, size_t to_stride, float *to)
{
    for (size_t c = 0; c < count; c += LANES)
        for (size_t x = 0; x < positions; x++) {
            vector sum = {0};
#pragma GCC unroll 4
            for (size_t t = 0; t < tap_count; t++)
                sum = vector_multiply_add(vector_load(taps->from[t] + x * stride + c),
                                          vector_load_part(taps->weights[t] + c, count - c, 0), sum);
            vector_store(to + x * to_stride + c, sum);
        }
}

static void depthwise_backward(const struct depthwise *shape, const struct image_source *gradient, size_t image,
                               size_t first, size_t count, const struct image_sink *sink, struct image_sums *sums,
                               float *scratch)
{
    const size_t stride = (count + LANES - 1) / LANES * LANES, kernel = shape->kernel, step = shape->stride;
    const struct line_ring ring = ring_begin(kernel, kernel, shape->out_width, stride, scratch);
    float *results = scratch + kernel * ring.line;
    size_t next = 0;
    for (size_t y = 0; y < shape->height; y++) {
        for (; next < shape->out_height && next * step <= y + shape->padding; next++)
            ring_read(&ring, gradient, image, (ptrdiff_t)next, shape->out_height, first, count);
        for (size_t x = 0; x < shape->width; x++)
            sink_prefetch(sink, (image * shape->height + y) * shape->width + x, first, count);
        for (size_t phase = 0; phase < step && phase < shape->width; phase++) {
            const struct depthwise_taps taps = depthwise_taps_of(shape, &ring, y, phase, first);
            const size_t positions = (shape->width - phase + step - 1) / step;
            float *to = results + phase * stride;
            if (taps.count == 1)
                depthwise_add_taps(&taps, 1, positions, count, stride, step * stride, to);
            else if (taps.count == 2)
                depthwise_add_taps(&taps, 2, positions, count, stride, step * stride, to);
            else if (taps.count == 4)
                depthwise_add_taps(&taps, 4, positions, count, stride, step * stride, to);
            else
                depthwise_add_taps(&taps, taps.count, positions, count, stride, step * stride, to);
        }
        sink_rows(sink, (image * shape->height + y) * shape->width, shape->width, first, count, results, stride, sums);
    }
}

/* ---- the gradient of weights ---- */

VECTOR_FUNCTION void depthwise_sum_line(const size_t kernel, const float *const lines[], const struct depthwise *shape,
                                        const float *gradient, size_t first, size_t count, size_t stride, float *sums)
{
    for (size_t c = 0; c < count; c += LANES)
        for (size_t r = 0; r < kernel; r++) {
            float *to = sums + r * kernel * shape->channels + first + c;
            const size_t step = shape->stride * stride;
            size_t s = 0;
            for (; s + 3 <= kernel; s += 3, to += 3 * shape->channels) {
                vector sum[3] = {{0}};
                const float *from = lines[r] + s * stride + c;
                for (size_t x = 0; x < shape->out_width; x++) {
                    const vector d = vector_load(gradient + x * stride + c);
#pragma GCC unroll 3
                    for (size_t k = 0; k < 3; k++)
                        sum[k] = vector_multiply_add(vector_load(from + x * step + k * stride), d, sum[k]);
                }
#pragma GCC unroll 3
                for (size_t k = 0; k < 3; k++)
                    vector_store_part(to + k * shape->channels,
                                      vector_load_part(to + k * shape->channels, count - c, 0) + sum[k], count - c);
            }
            for (; s < kernel; s++, to += shape->channels) {
                vector sum = {0};
                for (size_t x = 0; x < shape->out_width; x++)
                    sum = vector_multiply_add(vector_load(lines[r] + s * stride + c + x * step),
                                              vector_load(gradient + x * stride + c), sum);
                vector_store_part(to, vector_load_part(to, count - c, 0) + sum, count - c);
            }
        }
}

/* All nine sums of a channel at once. */
static void depthwise_sum_line_of_3(const float *const lines[], const struct depthwise *shape, const float *gradient,
                                    size_t first, size_t count, size_t stride, float *sums)
{
    for (size_t c = 0; c < count; c += LANES) {
        vector sum[9] = {{0}};
        for (size_t x = 0; x < shape->out_width; x++) {
            const vector d = vector_load(gradient + x * stride + c);
            const size_t at = x * shape->stride * stride + c;
#pragma GCC unroll 9
            for (size_t t = 0; t < 9; t++)
                sum[t] = vector_multiply_add(vector_load(lines[t / 3] + at + t % 3 * stride), d, sum[t]);
        }
#pragma GCC unroll 9
        for (size_t t = 0; t < 9; t++) {
            float *to = sums + t * shape->channels + first + c;
            vector_store_part(to, vector_load_part(to, count - c, 0) + sum[t], count - c);
        }
    }
}

static void depthwise_weights(const struct depthwise *shape, const struct image_source *x,
                              const struct image_source *gradient, size_t image, size_t first, size_t count,
                              float *sums, float *scratch)
{
    const size_t stride = (count + LANES - 1) / LANES * LANES, kernel = shape->kernel;
    const struct line_ring ring = ring_begin(kernel, shape->padding, shape->width, stride, scratch);
    float *slopes = scratch + kernel * ring.line;
    ptrdiff_t next = -(ptrdiff_t)shape->padding;
    for (size_t y = 0; y < shape->out_height; y++) {
        const ptrdiff_t top = (ptrdiff_t)(y * shape->stride) - (ptrdiff_t)shape->padding;
        const float *lines[CONVOLUTION_KERNEL_MOST];
        for (next = next < top ? top : next; next < top + (ptrdiff_t)kernel; next++)
            ring_read(&ring, x, image, next, shape->height, first, count);
        for (size_t r = 0; r < kernel; r++)
            lines[r] = ring_line(&ring, top + (ptrdiff_t)r);
        source_rows(gradient, (image * shape->out_height + y) * shape->out_width, shape->out_width, first, count,
                    slopes, stride);
        if (kernel == 3)
            depthwise_sum_line_of_3(lines, shape, slopes, first, count, stride, sums);
        else
            depthwise_sum_line(kernel, lines, shape, slopes, first, count, stride, sums);
    }
}
