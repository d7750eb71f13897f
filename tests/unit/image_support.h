/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of images: images that are made, encoded and written to files. */
#ifndef WEFT_TESTS_IMAGE_SUPPORT_H
#define WEFT_TESTS_IMAGE_SUPPORT_H

#include "temporary.h"
#include "training/data/image/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

/** A smooth image; `kind` tells images apart. Free it with image_free(). */
static inline struct image smooth_image(uint32_t kind, uint32_t height, uint32_t width, uint32_t channels)
{
    struct image image = {0};
    assert_int_equal(image_allocate(&image, height, width, channels, NULL), WEFT_OK);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                image.pixels[(y * width + x) * channels + c] =
                    (uint8_t)(40 + (x * (1 + c) + y * (3 - c)) * 50 / (width + height) + kind * 37 % 60);
    return image;
}

/** The bytes of an encoded image; the caller frees them. */
struct encoded {
    uint8_t *bytes;
    size_t size;
};

static inline struct encoded encode_smooth(uint32_t kind, uint32_t height, uint32_t width, uint32_t channels,
                                           int quality)
{
    struct image image = smooth_image(kind, height, width, channels);
    struct encoded encoded;
    assert_int_equal(image_encode(&image, quality, &encoded.bytes, &encoded.size, NULL), WEFT_OK);
    image_free(&image);
    return encoded;
}

/** Write a smooth image to "directory/name", a PNG for quality 0. Directories above it are made. */
static inline void write_smooth(const char *directory, const char *name, uint32_t kind, uint32_t height, uint32_t width,
                                int quality)
{
    struct encoded encoded = encode_smooth(kind, height, width, 3, quality);
    assert_int_equal(file_make_directory_of(temporary_path(directory, name), NULL), WEFT_OK);
    temporary_file(directory, name, encoded.bytes, encoded.size);
    free(encoded.bytes);
}

#endif
