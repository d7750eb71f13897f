/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/staging.h"

/* Room for the piece after the last one, or at the beginning of the ring, that leaves the last one alone. */
static bool staging_fits(const struct staging *staging, uint64_t bytes, uint64_t *first)
{
    *first = staging->end;
    if (bytes <= staging->bytes - staging->end)
        return true;
    *first = 0;
    return bytes <= staging->first;
}

static weft_status staging_grow(struct staging *staging, struct heap *heap, uint64_t usual, uint64_t bytes,
                                struct error *error)
{
    uint64_t size = usual;
    if (size < 2 * bytes)
        size = 2 * bytes;
    if (size < staging->bytes + bytes) /* three times the largest piece is enough for any order of sizes */
        size = staging->bytes + bytes;
    void *ring = NULL;
    weft_status status = heap_alloc(heap, size, &ring, error);
    if (status != WEFT_OK)
        return status;
    *staging = (struct staging){.ring = ring, .bytes = size, .outgrown = staging->ring};
    return WEFT_OK;
}

weft_status staging_take(struct staging *staging, struct heap *heap, uint64_t usual, uint64_t bytes, char **place,
                         struct error *error)
{
    uint64_t first;
    bytes = (bytes + 127) & ~(uint64_t)127;
    heap_free(heap, staging->outgrown);
    staging->outgrown = NULL;
    if (!staging_fits(staging, bytes, &first)) {
        weft_status status = staging_grow(staging, heap, usual, bytes, error);
        if (status != WEFT_OK)
            return status;
        first = 0;
    }
    staging->first = first;
    staging->end = first + bytes;
    *place = staging->ring + first;
    return WEFT_OK;
}

void staging_free(struct staging *staging, struct heap *heap)
{
    heap_free(heap, staging->outgrown);
    heap_free(heap, staging->ring);
    *staging = (struct staging){0};
}
