/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test shim: what if the network kept no order at all? Completions (messages and chunks that have arrived or left)
 * are kept back and handed on in a random order, and chunks are written in one that is not ascending. Whatever passes
 * under it for many seeds does not lean on the order of a provider that happens to keep it.
 */
#include "base/random.h"
#include "transport/fabric_internal.h"

#include <stdlib.h>

struct shuffle {
    uint64_t seed, drawn;
    size_t count, size;
    struct completion *entries;
};

weft_status shuffle_open(uint64_t seed, struct shuffle **result, struct error *error)
{
    struct shuffle *shuffle = calloc(1, sizeof *shuffle);
    if (!shuffle)
        return error_memory(error, sizeof *shuffle, "the shuffle of completions");
    shuffle->seed = seed;
    *result = shuffle;
    return WEFT_OK;
}

void shuffle_close(struct shuffle *shuffle)
{
    if (!shuffle)
        return;
    free(shuffle->entries);
    free(shuffle);
}

weft_status shuffle_put(struct shuffle *shuffle, const struct completion *entries, size_t count, struct error *error)
{
    if (!count)
        return WEFT_OK;
    if (shuffle->count + count > shuffle->size) {
        size_t size = 2 * (shuffle->size + count);
        struct completion *grown = realloc(shuffle->entries, size * sizeof *grown);
        if (!grown)
            return error_memory(error, size * sizeof *grown, "completions kept back");
        shuffle->entries = grown;
        shuffle->size = size;
    }
    memcpy(shuffle->entries + shuffle->count, entries, count * sizeof *entries);
    shuffle->count += count;
    return WEFT_OK;
}

size_t shuffle_get(struct shuffle *shuffle, struct completion *entries, size_t count)
{
    size_t taken = 0;
    while (taken < count && shuffle->count && random_below(shuffle->seed, shuffle->drawn++, 3) == 0) {
        size_t which = random_below(shuffle->seed, shuffle->drawn++, shuffle->count);
        entries[taken++] = shuffle->entries[which];
        shuffle->entries[which] = shuffle->entries[--shuffle->count];
    }
    return taken;
}

bool shuffle_is_empty(const struct shuffle *shuffle)
{
    return shuffle->count == 0;
}

uint32_t shuffle_chunk(const struct shuffle *shuffle, uint32_t n, uint32_t count)
{
    return (uint32_t)((count - 1 - n + shuffle->seed) % count);
}
