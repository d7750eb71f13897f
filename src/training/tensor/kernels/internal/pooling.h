/* SPDX-License-Identifier: Apache-2.0 */
/* Pools, and the loss of mixed samples. */

/* ---- the largest ---- */

/* The window of one position: its first line and column in the image, which may be negative. */
struct pool_window {
    size_t image; /* first position of the image */
    ptrdiff_t y, x;
};

VECTOR_FUNCTION void pool_largest(const struct max_pool *shape, const struct image_source *source,
                                  const enum source_mode mode, const struct pool_window *window, float *out,
                                  uint8_t *places)
{
    for (size_t c = 0; c < shape->channels; c += LANES) {
        const size_t rest = shape->channels - c;
        vector best = vector_of(-INFINITY);
        vector_bits place = {0};
        for (ptrdiff_t r = 0; r < (ptrdiff_t)shape->kernel; r++)
            for (ptrdiff_t s = 0; s < (ptrdiff_t)shape->kernel; s++) {
                const ptrdiff_t y = window->y + r, x = window->x + s;
                if (y < 0 || y >= (ptrdiff_t)shape->height || x < 0 || x >= (ptrdiff_t)shape->width)
                    continue;
                const size_t at = (window->image + (size_t)y * shape->width + (size_t)x) * shape->channels;
                const vector value = source_load(source, mode, at, c, rest);
                const vector_bits taken = (value > best) | ((value != value) & (best == best));
                best = (vector)(((vector_bits)value & taken) | ((vector_bits)best & ~taken));
                const int32_t number = (int32_t)(r * (ptrdiff_t)shape->kernel + s);
                place = ((place ^ number) & taken) ^ place;
            }
        vector_store_part(out + c, best, rest);
        for (size_t i = 0; places && i < LANES && i < rest; i++)
            places[c + i] = (uint8_t)place[i];
    }
}

static void max_pool_forward(const struct max_pool *shape, const struct image_source *source, size_t first,
                             size_t count, float *out, uint8_t *places)
{
    const size_t height = window_count(shape->height, shape->kernel, shape->stride, shape->padding),
                 width = window_count(shape->width, shape->kernel, shape->stride, shape->padding);
    for (size_t i = first * width; i < (first + count) * width; i++) {
        const size_t line = i / width;
        const struct pool_window window = {
            .image = line / height * shape->height * shape->width,
            .y = (ptrdiff_t)(line % height * shape->stride) - (ptrdiff_t)shape->padding,
            .x = (ptrdiff_t)(i % width * shape->stride) - (ptrdiff_t)shape->padding,
        };
        const size_t at = i * shape->channels;
        if (source->mode == SOURCE_PLAIN)
            pool_largest(shape, source, SOURCE_PLAIN, &window, out + at, places ? places + at : NULL);
        else
            pool_largest(shape, source, SOURCE_NORMALIZED, &window, out + at, places ? places + at : NULL);
    }
}

static void max_pool_backward(const struct max_pool *shape, size_t image, const float *gradient, const uint8_t *places,
                              const struct image_sink *sink, struct image_sums *sums, float *scratch)
{
    const size_t height = window_count(shape->height, shape->kernel, shape->stride, shape->padding),
                 width = window_count(shape->width, shape->kernel, shape->stride, shape->padding),
                 channels = shape->channels, positions = shape->height * shape->width;
    memset(scratch, 0, positions * channels * sizeof *scratch);
    for (size_t i = 0; i < height * width; i++) {
        const size_t at = (image * height * width + i) * channels;
        for (size_t c = 0; c < channels; c++) {
            const size_t y = i / width * shape->stride + places[at + c] / shape->kernel - shape->padding,
                         x = i % width * shape->stride + places[at + c] % shape->kernel - shape->padding;
            if (y < shape->height && x < shape->width) /* a place is outside if all of the window is minus infinity */
                scratch[(y * shape->width + x) * channels + c] += gradient[at + c];
        }
    }
    sink_rows(sink, image * positions, positions, 0, channels, scratch, channels, sums);
}

/* ---- the mean ---- */

VECTOR_FUNCTION void pool_mean(const struct average_pool *shape, size_t image, const struct image_source *source,
                               const enum source_mode mode, float *out)
{
    const vector share = vector_of(1.0f / (float)shape->positions);
    for (size_t c = 0; c < shape->channels; c += LANES) {
        const size_t rest = shape->channels - c;
        vector sum = {0};
        for (size_t i = 0; i < shape->positions; i++)
            sum += source_load(source, mode, (image * shape->positions + i) * shape->channels, c, rest);
        vector_store_part(out + image * shape->channels + c, sum * share, rest);
    }
}

static void average_pool_forward(const struct average_pool *shape, size_t image, const struct image_source *source,
                                 float *out)
{
    if (source->mode == SOURCE_PLAIN)
        pool_mean(shape, image, source, SOURCE_PLAIN, out);
    else
        pool_mean(shape, image, source, SOURCE_NORMALIZED, out);
}

static void average_pool_backward(const struct average_pool *shape, size_t image, const float *gradient,
                                  const struct image_sink *sink, struct image_sums *sums, float *scratch)
{
    const vector share = vector_of(1.0f / (float)shape->positions);
    for (size_t c = 0; c < shape->channels; c += LANES)
        vector_store(scratch + c,
                     vector_load_part(gradient + image * shape->channels + c, shape->channels - c, 0) * share);
    sink_rows(sink, image * shape->positions, shape->positions, 0, shape->channels, scratch, 0, sums);
}

/* ---- loss ---- */

static void mixed_cross_entropy(size_t rows, size_t classes, size_t stride, const int32_t *targets, const float *shares,
                                float smoothing, float gradient_scale, void *logits_, double *losses, double *right)
{
    activation *logits = logits_;
    for (size_t i = 0; i < rows; i++) {
        activation *row = logits + i * stride;
        const float most = logits_largest(row, classes), sum = logits_exponentials(row, most, classes);
        const float mean = smoothing > 0 ? logits_sum(row, classes) / (float)classes : 0;
        float at[2], share[2];
        double expected = (double)smoothing * (double)mean;
        for (size_t k = 0; k < 2; k++) {
            at[k] = activation_value(row[targets[2 * i + k]]);
            share[k] = (1 - smoothing) * shares[2 * i + k];
            expected += (double)share[k] * (double)at[k];
        }
        losses[i] = log((double)sum) + (double)most - expected;
        if (right)
            right[i] = is_first_largest(row, classes, (size_t)targets[2 * i], most);
        if (gradient_scale == 0)
            continue;
        const float factor = gradient_scale / sum, less = gradient_scale * smoothing / (float)classes;
        const bool same = targets[2 * i] == targets[2 * i + 1];
        logits_to_gradient(row, most, factor, less, classes);
        /* Recomputed, because the difference would be lost in the rounded value. */
        for (size_t k = 0; k < 2; k++) {
            const float of_target = same ? share[0] + share[1] : share[k];
            const vector term = vector_exponential(vector_of(at[k] - most));
            activation_store_part(
                row + targets[2 * i + k],
                vector_multiply_add(term, vector_of(factor), vector_of(-less - gradient_scale * of_target)), 1);
        }
    }
}
