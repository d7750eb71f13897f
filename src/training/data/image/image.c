/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/image.h"
#include "training/data/image/internal/codecs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum image_format {
    IMAGE_UNKNOWN,
    IMAGE_JPEG,
    IMAGE_PNG,
};

static enum image_format image_recognize(const struct image_bytes *bytes)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (bytes->size >= sizeof jpeg && memcmp(bytes->bytes, jpeg, sizeof jpeg) == 0)
        return IMAGE_JPEG;
    if (bytes->size >= sizeof png && memcmp(bytes->bytes, png, sizeof png) == 0)
        return IMAGE_PNG;
    return IMAGE_UNKNOWN;
}

static weft_status image_refuse_format(const struct image_bytes *bytes, struct error *error)
{
    if (bytes->size == 0)
        return error_set(error, WEFT_ERROR_DATA, "the image '%s' is empty; remove it or get it again", bytes->name);
    return error_set(error, WEFT_ERROR_DATA,
                     "'%s' is neither a JPEG nor a PNG image (it begins with the byte 0x%02x); convert or remove it",
                     bytes->name, bytes->bytes[0]);
}

weft_status image_check_size(const struct image_bytes *bytes, uint64_t height, uint64_t width, double most,
                             struct error *error)
{
    if (height == 0 || width == 0)
        return error_set(error, WEFT_ERROR_DATA, "the image '%s' has a size of %" PRIu64 " x %" PRIu64 "; remove it",
                         bytes->name, width, height);
    if (width > IMAGE_PIXELS_MOST / height)
        return error_set(error, WEFT_ERROR_DATA,
                         "the image '%s' has %" PRIu64 " x %" PRIu64 " pixels, and at most %" PRIu64
                         " are read; make it smaller or remove it",
                         bytes->name, width, height, IMAGE_PIXELS_MOST);
    if ((double)height * (double)width > most)
        return error_set(error, WEFT_ERROR_DATA,
                         "the header of '%s' gives %" PRIu64 " x %" PRIu64
                         " pixels, more than a file of %zu bytes can hold; get it again or remove it",
                         bytes->name, width, height, bytes->size);
    return WEFT_OK;
}

weft_status image_find_region(const struct image_bytes *bytes, const struct image_request *request, uint32_t height,
                              uint32_t width, struct image_region *region, struct error *error)
{
    const struct image_region asked = request->region;
    *region = asked.width ? asked : (struct image_region){0, 0, width, height};
    if (region->height == 0 || region->x >= width || region->width > width - region->x || region->y >= height ||
        region->height > height - region->y)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the image '%s' has %" PRIu32 " x %" PRIu32 " pixels, without a region of %" PRIu32
                         " x %" PRIu32 " at (%" PRIu32 ", %" PRIu32 ")",
                         bytes->name, width, height, asked.width, asked.height, asked.x, asked.y);
    return WEFT_OK;
}

weft_status image_measure(const void *bytes, size_t size, const char *name, struct image_size *measured,
                          struct error *error)
{
    const struct image_bytes image = {bytes, size, name};
    switch (image_recognize(&image)) {
    case IMAGE_JPEG:
        return jpeg_measure(&image, measured, error);
    case IMAGE_PNG:
        return png_measure(&image, measured, error);
    default:
        return image_refuse_format(&image, error);
    }
}

weft_status image_decode(const void *bytes, size_t size, const char *name, const struct image_request *request,
                         struct image *image, struct error *error)
{
    const struct image_bytes from = {bytes, size, name};
    switch (image_recognize(&from)) {
    case IMAGE_JPEG:
        return jpeg_decode(&from, request, image, error);
    case IMAGE_PNG:
        return png_decode(&from, request, image, error);
    default:
        return image_refuse_format(&from, error);
    }
}

weft_status image_encode(const struct image *image, int quality, uint8_t **bytes, size_t *size, struct error *error)
{
    return quality ? jpeg_encode(image, quality, bytes, size, error) : png_encode(image, bytes, size, error);
}

weft_status image_allocate(struct image *image, uint32_t height, uint32_t width, uint32_t channels, struct error *error)
{
    const size_t bytes = (size_t)height * width * channels;
    if (bytes > image->room) {
        free(image->pixels);
        image->room = 0;
        image->pixels = malloc(bytes);
        if (!image->pixels)
            return error_memory(error, bytes, "the pixels of an image");
        image->room = bytes;
    }
    image->height = height;
    image->width = width;
    image->channels = channels;
    image->left = image->top = 0;
    image->shrink = 1;
    return WEFT_OK;
}

void image_free(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0};
}
