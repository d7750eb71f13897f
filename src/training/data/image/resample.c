/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Four numbers that are computed together: the channels of a pixel, and one that does not count. */
typedef float resample_lanes __attribute__((vector_size(16)));

#define RESAMPLE_LANES 4u

static weft_status resample_reserve(float **numbers, size_t *room, size_t count, struct error *error)
{
    return ARRAY_RESERVE(*numbers, *room, count, "a row of an image", error);
}

/* ---- weights ---- */

static weft_status axis_reserve(struct resample_axis *axis, uint32_t results, size_t most, struct error *error)
{
    if (results > axis->results) {
        free(axis->first);
        free(axis->count);
        axis->results = 0;
        axis->first = malloc(results * sizeof *axis->first);
        axis->count = malloc(results * sizeof *axis->count);
        if (!axis->first || !axis->count)
            return error_memory(error, results * (2 * sizeof *axis->first), "places in an image");
        axis->results = results;
    }
    axis->most = most;
    return resample_reserve(&axis->weights, &axis->room, results * most, error);
}

/* The weights of one result, whose center is at `center`, among pixels [low, high). */
static void axis_weigh(struct resample_axis *axis, uint32_t result, double center, double half, int64_t low,
                       int64_t high)
{
    int64_t first = (int64_t)ceil(center - half - 0.5), end = (int64_t)floor(center + half - 0.5) + 1;
    first = first < low ? low : first > high - 1 ? high - 1 : first;
    end = end > high ? high : end <= first ? first + 1 : end;
    float *weights = axis->weights + result * axis->most;
    double sum = 0;
    for (int64_t i = first; i < end; i++) {
        const double distance = fabs(((double)i + 0.5 - center) / half);
        sum += distance < 1 ? 1 - distance : 0;
    }
    for (int64_t i = first; i < end; i++) {
        const double distance = fabs(((double)i + 0.5 - center) / half);
        weights[i - first] = sum > 0 ? (float)((distance < 1 ? 1 - distance : 0) / sum) : 1.0f / (float)(end - first);
    }
    axis->first[result] = (uint32_t)first;
    axis->count[result] = (uint32_t)(end - first);
}

/* `begin` and `length` are those of the box in pixels of an image with `pixels`; mirrored results come from its end. */
static weft_status axis_prepare(struct resample_axis *axis, double begin, double length, uint32_t pixels,
                                uint32_t results, bool mirrored, struct error *error)
{
    const double step = length / results, half = step > 1 ? step : 1;
    int64_t low = (int64_t)floor(begin + 1e-6), high = (int64_t)ceil(begin + length - 1e-6);
    low = low < 0 ? 0 : low > (int64_t)pixels - 1 ? (int64_t)pixels - 1 : low;
    high = high > (int64_t)pixels ? (int64_t)pixels : high <= low ? low + 1 : high;
    weft_status status = axis_reserve(axis, results, (size_t)ceil(2 * half) + 1, error);
    for (uint32_t i = 0; status == WEFT_OK && i < results; i++)
        axis_weigh(axis, mirrored ? results - 1 - i : i, begin + (i + 0.5) * step, half, low, high);
    return status;
}

/* ---- the two directions ---- */

/* Rows that have been weighted add up to one: `count` numbers of each, `stride` apart. */
static void resample_down(const uint8_t *rows, size_t stride, const float *weights, uint32_t row_count, size_t count,
                          float *restrict sum)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = weights[0] * (float)rows[i];
    for (uint32_t row = 1; row < row_count; row++) {
        const uint8_t *numbers = rows + row * stride;
        const float weight = weights[row];
        for (size_t i = 0; i < count; i++)
            sum[i] += weight * (float)numbers[i];
    }
}

/* Both rows are followed by room for the lane that does not count. */
static void resample_across_colors(const float *row, const struct resample_axis *axis, uint32_t size, float *line)
{
    for (uint32_t x = 0; x < size; x++) {
        const float *weights = axis->weights + x * axis->most, *pixels = row + (size_t)axis->first[x] * 3;
        resample_lanes sum = {0};
        for (uint32_t i = 0; i < axis->count[x]; i++) {
            resample_lanes pixel;
            memcpy(&pixel, pixels + (size_t)i * 3, sizeof pixel);
            sum += weights[i] * pixel;
        }
        memcpy(line + (size_t)x * 3, &sum, sizeof sum);
    }
}

static void resample_across_gray(const float *row, const struct resample_axis *axis, uint32_t size, float *line)
{
    for (uint32_t x = 0; x < size; x++) {
        const float *weights = axis->weights + x * axis->most, *pixels = row + axis->first[x];
        float sum = 0;
        for (uint32_t i = 0; i < axis->count[x]; i++)
            sum += weights[i] * pixels[i];
        line[x] = sum;
    }
}

weft_status image_resample(struct resampler *resampler, const struct image *image, const struct resample_box *box,
                           struct image_size size, bool mirrored, float *pixels, struct error *error)
{
    struct resample_axis *across = &resampler->across, *down = &resampler->down;
    const size_t width = (size_t)image->width * image->channels, line = (size_t)size.width * image->channels;
    const double shrink = image->shrink;
    weft_status status = axis_prepare(across, (box->x - image->left) / shrink, box->width / shrink, image->width,
                                      size.width, mirrored, error);
    if (status == WEFT_OK)
        status = axis_prepare(down, (box->y - image->top) / shrink, box->height / shrink, image->height, size.height,
                              false, error);
    if (status == WEFT_OK)
        status = resample_reserve(&resampler->row, &resampler->row_room, width + RESAMPLE_LANES, error);
    if (status == WEFT_OK)
        status = resample_reserve(&resampler->line, &resampler->line_room, line + RESAMPLE_LANES, error);
    if (status != WEFT_OK)
        return status;
    /* Only the columns that count. */
    const uint32_t left = mirrored ? size.width - 1 : 0, right = size.width - 1 - left;
    const size_t first = (size_t)across->first[left] * image->channels;
    const size_t end = ((size_t)across->first[right] + across->count[right]) * image->channels;
    memset(resampler->row + end, 0, RESAMPLE_LANES * sizeof *resampler->row);
    for (uint32_t y = 0; y < size.height; y++) {
        /* The lane that does not count falls on the next row, which comes later; the last row has none. */
        float *to = y + 1 < size.height ? pixels + y * line : resampler->line;
        resample_down(image->pixels + down->first[y] * width + first, width, down->weights + y * down->most,
                      down->count[y], end - first, resampler->row + first);
        if (image->channels == 3)
            resample_across_colors(resampler->row, across, size.width, to);
        else
            resample_across_gray(resampler->row, across, size.width, to);
    }
    memcpy(pixels + (size.height - 1) * line, resampler->line, line * sizeof *pixels);
    return WEFT_OK;
}

void resampler_free(struct resampler *resampler)
{
    for (int i = 0; i < 2; i++) {
        struct resample_axis *axis = i ? &resampler->across : &resampler->down;
        free(axis->first);
        free(axis->count);
        free(axis->weights);
    }
    free(resampler->row);
    free(resampler->line);
    *resampler = (struct resampler){0};
}
