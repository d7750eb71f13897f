/* SPDX-License-Identifier: Apache-2.0 */
/** The formats of images: see image.h. Thread-safe. */
#ifndef WEFT_TRAINING_DATA_IMAGE_INTERNAL_CODECS_H
#define WEFT_TRAINING_DATA_IMAGE_INTERNAL_CODECS_H

#include "training/data/image/image.h"

/** The bytes of an image, and its path for messages. */
struct image_bytes {
    const uint8_t *bytes;
    size_t size;
    const char *name;
};

/** Without a request only the size is read. With one, its region is within the image. */
weft_status jpeg_measure(const struct image_bytes *bytes, struct image_size *measured, struct error *error);
weft_status jpeg_decode(const struct image_bytes *bytes, const struct image_request *request, struct image *image,
                        struct error *error);
weft_status jpeg_encode(const struct image *image, int quality, uint8_t **bytes, size_t *size, struct error *error);

weft_status png_measure(const struct image_bytes *bytes, struct image_size *measured, struct error *error);
weft_status png_decode(const struct image_bytes *bytes, const struct image_request *request, struct image *image,
                       struct error *error);
weft_status png_encode(const struct image *image, uint8_t **bytes, size_t *size, struct error *error);

/**
 * Check a size that a header has against the limits; `most` is how many pixels the file's bytes can hold at most.
 * Errors: DATA.
 */
weft_status image_check_size(const struct image_bytes *bytes, uint64_t height, uint64_t width, double most,
                             struct error *error);

/**
 * The region of a request within an image of this size: all of it where the request has none. Errors: ARGUMENT if it is
 * not inside.
 */
weft_status image_find_region(const struct image_bytes *bytes, const struct image_request *request, uint32_t height,
                              uint32_t width, struct image_region *region, struct error *error);

#endif
