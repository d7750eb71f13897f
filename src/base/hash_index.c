/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash_index.h"

#include <stdlib.h>

#define ROOM_LEAST 64

static struct hash_index_item *index_slot(struct hash_index_item *items, size_t room, uint64_t key)
{
    size_t at = key & (room - 1);
    while (items[at].key && items[at].key != key)
        at = (at + 1) & (room - 1);
    return &items[at];
}

static uint64_t nonzero_key(uint64_t hash)
{
    return hash ? hash : 1;
}

void *hash_index_find(const struct hash_index *index, uint64_t key)
{
    return index->room ? index_slot(index->items, index->room, nonzero_key(key))->value : NULL;
}

static weft_status index_grow(struct hash_index *index, struct error *error)
{
    const size_t room = index->room ? 2 * index->room : ROOM_LEAST;
    struct hash_index_item *items = calloc(room, sizeof *items);
    if (!items)
        return error_memory(error, room * sizeof *items, "an index");
    for (size_t i = 0; i < index->room; i++)
        if (index->items[i].key)
            *index_slot(items, room, index->items[i].key) = index->items[i];
    free(index->items);
    index->items = items;
    index->room = room;
    return WEFT_OK;
}

weft_status hash_index_add(struct hash_index *index, uint64_t key, void *value, struct error *error)
{
    const weft_status status = 2 * index->count >= index->room ? index_grow(index, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    *index_slot(index->items, index->room, nonzero_key(key)) = (struct hash_index_item){nonzero_key(key), value};
    index->count++;
    return WEFT_OK;
}

void hash_index_free(struct hash_index *index, void (*release)(void *value))
{
    for (size_t i = 0; release && i < index->room; i++)
        if (index->items[i].value)
            release(index->items[i].value);
    free(index->items);
    *index = (struct hash_index){0};
}
