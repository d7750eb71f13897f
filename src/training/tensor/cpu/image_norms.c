/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/cpu/image_norms.h"

#include <math.h>
#include <string.h>

static float rectifier_lower(enum rectifier rectifier)
{
    return rectifier == RECTIFIER_NONE ? -INFINITY : 0;
}

static float rectifier_upper(enum rectifier rectifier)
{
    return rectifier == RECTIFIER_RELU6 ? 6 : INFINITY;
}

/* n gain + bias = factor y + offset. */
static void norm_factors(const struct batch_norm *norm, float **room, const float **factors, const float **offsets)
{
    const float *gain = norm->gain, *bias = norm->bias, *means = norm->means, *reciprocals = norm->reciprocals;
    float *factor = room_take(room, norm->channels), *offset = room_take(room, norm->channels);
    for (size_t j = 0; j < norm->channels; j++) {
        factor[j] = gain[j] * reciprocals[j];
        offset[j] = bias[j] - means[j] * factor[j];
    }
    *factors = factor;
    *offsets = offset;
}

struct image_source image_source_of(const void *x, size_t channels, const struct batch_norm *norm, float **room)
{
    struct image_source source = {.mode = SOURCE_PLAIN, .channels = channels, .x = x};
    if (!norm)
        return source;
    source.mode = SOURCE_NORMALIZED;
    source.lower = rectifier_lower(norm->rectifier);
    source.upper = rectifier_upper(norm->rectifier);
    norm_factors(norm, room, &source.factors, &source.offsets);
    return source;
}

struct image_source image_gradient_of(const void *gradient, const void *y, size_t channels, size_t rows,
                                      const struct batch_norm *norm, float **room)
{
    struct image_source source = {.mode = SOURCE_PLAIN, .channels = channels, .x = gradient};
    if (!norm)
        return source;
    const float *gain = norm->gain, *means = norm->means, *reciprocals = norm->reciprocals;
    const float *of_gain = norm->gradient_gain, *of_bias = norm->gradient_bias;
    float *factors = room_take(room, channels), *of_y = room_take(room, channels), *offsets = room_take(room, channels);
    for (size_t j = 0; j < channels; j++) {
        factors[j] = gain[j] * reciprocals[j];
        of_y[j] = norm->frozen ? 0 : -factors[j] * reciprocals[j] * of_gain[j] / (float)rows;
        offsets[j] = norm->frozen ? 0 : -factors[j] * of_bias[j] / (float)rows - of_y[j] * means[j];
    }
    /* With constant statistics the gradient is only scaled, and y is not read. */
    source.mode = norm->frozen ? SOURCE_NORMALIZED : SOURCE_SLOPE;
    source.lower = -INFINITY;
    source.upper = INFINITY;
    source.y = y;
    source.factors = factors;
    source.offsets = offsets;
    source.of_y = of_y;
    return source;
}

/* Elements of an array that is written past the caches: it would not stay in them until it is read. */
#define STREAMED_FROM ((size_t)4 << 20)

struct image_sink image_sink_of(void *out, size_t rows, size_t channels, const struct batch_norm *norm)
{
    return (struct image_sink){.mode = norm && !norm->frozen ? SINK_STATISTICS : SINK_PLAIN,
                               .streams = rows * channels >= STREAMED_FROM,
                               .channels = channels,
                               .out = out};
}

struct image_sink image_slope_of(void *out, size_t rows, size_t channels, const void *y, const struct batch_norm *norm,
                                 float **room)
{
    struct image_sink sink = {
        .mode = SINK_PLAIN, .streams = rows * channels >= STREAMED_FROM, .channels = channels, .out = out};
    if (!norm)
        return sink;
    sink.mode = SINK_SLOPE;
    sink.lower = rectifier_lower(norm->rectifier);
    sink.upper = rectifier_upper(norm->rectifier);
    sink.y = y;
    sink.means = norm->means;
    sink.reciprocals = norm->reciprocals;
    norm_factors(norm, room, &sink.factors, &sink.offsets);
    return sink;
}

/* ---- sums ---- */

size_t image_parts_floats(int parts, size_t channels)
{
    return (size_t)parts * 3 * room_floats(channels);
}

struct image_parts image_parts_take(int parts, size_t channels, float **room)
{
    struct image_parts taken = {.parts = parts, .channels = channels, .stride = room_floats(channels)};
    taken.memory = room_take(room, image_parts_floats(parts, channels));
    memset(taken.memory, 0, image_parts_floats(parts, channels) * sizeof *taken.memory);
    return taken;
}

struct image_sums image_part(const struct image_parts *parts, int number)
{
    float *first = parts->memory + (size_t)number * 3 * parts->stride;
    return (struct image_sums){.first = first, .second = first + parts->stride, .pivots = first + 2 * parts->stride};
}

/*
 * With d = y - pivot, a part's mean is pivot + sum of d / rows and its scatter is sum of d^2 - (sum of d)^2 / rows. Parts are
 * joined in order (Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm").
 */
void image_statistics(const struct image_parts *parts, const size_t *rows, const struct batch_norm *norm)
{
    float *means = norm->means, *variances = norm->variances, *reciprocals = norm->reciprocals;
    for (size_t j = 0; j < parts->channels; j++) {
        double mean = 0, scatter = 0, count = 0;
        for (int i = 0; i < parts->parts; i++) {
            const struct image_sums sums = image_part(parts, i);
            const double more = (double)rows[i], first = (double)sums.first[j];
            if (rows[i] == 0)
                continue;
            const double distance = (double)sums.pivots[j] + first / more - mean, all = count + more;
            scatter += (double)sums.second[j] - first * first / more + distance * distance * count * more / all;
            mean += distance * more / all;
            count = all;
        }
        scatter = fmax(scatter, 0); /* rounding could take it below */
        means[j] = (float)mean;
        reciprocals[j] = (float)(1 / sqrt(scatter / count + norm->epsilon));
        if (variances)
            variances[j] = (float)(scatter / (count > 1 ? count - 1 : 1));
    }
}

void image_gradients(const struct image_parts *parts, const struct batch_norm *norm)
{
    float *of_gain = norm->gradient_gain, *of_bias = norm->gradient_bias;
    for (size_t j = 0; j < parts->channels; j++) {
        double gain = 0, bias = 0;
        for (int i = 0; i < parts->parts; i++) {
            const struct image_sums sums = image_part(parts, i);
            bias += (double)sums.first[j];
            gain += (double)sums.second[j];
        }
        of_gain[j] = (float)gain;
        of_bias[j] = (float)bias;
    }
}
