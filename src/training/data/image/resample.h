/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Resizes a box of an image, bilinear with antialiasing: a pixel of the result is the mean of the box's pixels, weighted by
 * a triangle whose half width is one pixel of the result, and at least one pixel of the image. Pillow and torchvision
 * (antialias) define it so; here nothing is rounded to bytes on the way. Pixels outside the box do not count.
 *
 * Sums are taken in a fixed order, so the result has the same bits on every machine. A resampler belongs to one thread at
 * a time.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_RESAMPLE_H
#define WEFT_TRAINING_DATA_IMAGE_RESAMPLE_H

#include "training/data/image/image.h"

/** A box in pixels of the whole image, where a struct image may have a region only. It need not lie on whole pixels. */
struct resample_box {
    double x, y, width, height;
};

/** Where the pixels of one axis come from. */
struct resample_axis {
    uint32_t *first, *count; /**< pixels that a pixel of the result is made of */
    float *weights;          /**< `most` for each */
    size_t most, room, results;
};

/** Memory for the work, kept from call to call. A zeroed struct has nothing. */
struct resampler {
    struct resample_axis across, down;
    float *row; /**< one row of the image, weighted down */
    size_t row_room;
    float *line; /**< one row of the result */
    size_t line_room;
};

/**
 * Resize the box to `size`, from left to right or mirrored. `pixels` receives height x width x channels numbers from 0 to
 * 255. The box must lie within the region that the image was decoded for. Errors: MEMORY.
 */
weft_status image_resample(struct resampler *resampler, const struct image *image, const struct resample_box *box,
                           struct image_size size, bool mirrored, float *pixels, struct error *error);

void resampler_free(struct resampler *resampler);

#endif
