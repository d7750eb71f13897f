/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an image: refused with a message, or pixels of the size that was measured, whole and in part. */
#include "base/hash.h"
#include "base/random.h"
#include "training/data/image/image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A request that fits such an image; `key` chooses it. */
static struct image_request choose_request(struct image_size measured, uint64_t key)
{
    struct image_request request = {.channels = random_bits(key, 0) % 2 ? 3 : 1,
                                    .wanted = (uint32_t)random_below(key, 1, 64)};
    request.region.x = (uint32_t)random_below(key, 2, measured.width);
    request.region.y = (uint32_t)random_below(key, 3, measured.height);
    request.region.width = (uint32_t)random_below(key, 4, measured.width - request.region.x) + 1;
    request.region.height = (uint32_t)random_below(key, 5, measured.height - request.region.y) + 1;
    return request;
}

static void try_request(const uint8_t *data, size_t size, const struct image_request *request)
{
    struct image image = {0};
    struct error error = {0};
    if (image_decode(data, size, "input", request, &image, &error) != WEFT_OK) {
        if (!*error.text)
            abort();
    } else {
        const struct image_region *region = &request->region;
        if (image.channels != request->channels || image.left > region->x || image.top > region->y ||
            image.left + image.width * image.shrink < region->x + region->width ||
            image.top + image.height * image.shrink < region->y + region->height)
            abort();
        hash_bytes(image.pixels, (size_t)image.height * image.width * image.channels, 0);
    }
    image_free(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_size measured;
    struct error error = {0};
    if (image_measure(data, size, "input", &measured, &error) != WEFT_OK) {
        if (!*error.text)
            abort();
        return 0;
    }
    if ((uint64_t)measured.height * measured.width > IMAGE_PIXELS_MOST || !measured.height || !measured.width)
        abort();
    const struct image_request whole = {.channels = 3}, part = choose_request(measured, hash_bytes(data, size, 0));
    try_request(data, size, &whole);
    try_request(data, size, &part);
    return 0;
}
