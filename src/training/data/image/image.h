/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Decodes JPEG and PNG images, or a region of one, from memory.
 *
 * JPEG: baseline and progressive, gray, YCbCr, RGB, CMYK and YCCK with 8 bits. Where the caller wants fewer pixels than a
 * region has, blocks are decoded at 1/2, 1/4 or 1/8 of their size (the sizes for which libjpeg-turbo has fast code). Blocks
 * outside the region are only parsed, and those after it are not read at all. PNG: all forms; 16 bits become 8, alpha is
 * put on white. The orientation that EXIF describes is ignored, as torchvision does.
 *
 * Limits, checked before anything of the image's size is allocated: IMAGE_PIXELS_MOST, and no more pixels than such a
 * file can hold (a PNG expands at most 1032 times, which is deflate's limit; a JPEG block takes at least one bit).
 *
 * The pixels are a function of the bytes and the request alone. Thread-safe; a struct image belongs to one thread at a
 * time.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_IMAGE_H
#define WEFT_TRAINING_DATA_IMAGE_IMAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define IMAGE_PIXELS_MOST ((uint64_t)64 << 20)

/** Pixels, row by row, channels of a pixel together. A zeroed struct is empty. Reused, it keeps its memory. */
struct image {
    uint32_t height, width, channels; /**< channels: 1 or 3 (red, green, blue) */
    uint8_t *pixels;                  /**< height x width x channels */
    size_t room;                      /**< bytes allocated */
    /** Where the pixels lie in the whole image: pixel (x, y) covers a square of `shrink` pixels whose corner is at
     * (left + x shrink, top + y shrink). */
    double left, top, shrink;
};

/** A part of an image, in pixels. */
struct image_region {
    uint32_t x, y, width, height;
};

struct image_size {
    uint32_t height, width;
};

struct image_request {
    uint32_t channels;          /**< 1 or 3 */
    struct image_region region; /**< what must be decoded; width 0: everything */
    uint32_t wanted;            /**< height and width that the region is needed in; 0: in full size */
};

/**
 * The size of an image, from its header. `name` is its path, for messages. Errors: DATA if the bytes are neither a JPEG nor
 * a PNG image, or exceed a limit.
 */
weft_status image_measure(const void *bytes, size_t size, const char *name, struct image_size *measured,
                          struct error *error);

/**
 * Decode the region of `request` into `image`, which may then hold some more pixels around the region. Errors: DATA
 * for malformed or truncated bytes up to the region's end, a region outside the image, an image beyond the limits;
 * MEMORY.
 */
weft_status image_decode(const void *bytes, size_t size, const char *name, const struct image_request *request,
                         struct image *image, struct error *error);

/** Give `image` this size and memory for it. What it held is lost. Errors: MEMORY. */
weft_status image_allocate(struct image *image, uint32_t height, uint32_t width, uint32_t channels,
                           struct error *error);

/** Free the memory; the image is empty afterwards. */
void image_free(struct image *image);

/** Encode as JPEG (`quality` 1 to 100) or as PNG (`quality` 0) into `*bytes`, which the caller frees. Errors: MEMORY. */
weft_status image_encode(const struct image *image, int quality, uint8_t **bytes, size_t *size, struct error *error);

#endif
