/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/tokenizer/internal/string_set.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024

uint64_t string_set_hash(const void *bytes, size_t size)
{
    return hash_bytes(bytes, size, 0);
}

uint32_t string_set_find(const struct string_set *set, const void *bytes, size_t size, uint64_t hash)
{
    if (set->slot_count == 0)
        return STRING_SET_NONE;
    size_t mask = set->slot_count - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        const struct string_set_slot *slot = &set->slots[at];
        if (slot->number == STRING_SET_NONE)
            return STRING_SET_NONE;
        if (slot->mark != (uint32_t)(hash >> 32))
            continue;
        size_t length;
        const uint8_t *known = string_set_get(set, slot->number, &length);
        if (length == size && memcmp(known, bytes, size) == 0)
            return slot->number;
    }
}

static void string_set_put(struct string_set_slot *slots, size_t slot_count, uint32_t number, uint64_t hash)
{
    size_t at = hash & (slot_count - 1);
    while (slots[at].number != STRING_SET_NONE)
        at = (at + 1) & (slot_count - 1);
    slots[at] = (struct string_set_slot){number, (uint32_t)(hash >> 32)};
}

/* Twice the slots, at most half of them taken. */
static weft_status grow_slots(struct string_set *set, struct error *error)
{
    size_t count = set->slot_count ? 2 * set->slot_count : SLOTS_FIRST;
    struct string_set_slot *slots = malloc(count * sizeof *slots);
    if (!slots)
        return error_memory(error, count * sizeof *slots, "a set of strings");
    memset(slots, 0xff, count * sizeof *slots);
    for (uint32_t i = 0; i < set->count; i++) {
        size_t size;
        const uint8_t *bytes = string_set_get(set, i, &size);
        string_set_put(slots, count, i, string_set_hash(bytes, size));
    }
    free(set->slots);
    set->slots = slots;
    set->slot_count = count;
    return WEFT_OK;
}

static weft_status string_set_make_room(struct string_set *set, size_t size, struct error *error)
{
    if (set->count == STRING_SET_NONE - 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "more than 2^32 - 2 different strings");
    if (2 * ((size_t)set->count + 1) > set->slot_count) {
        weft_status status = grow_slots(set, error);
        if (status != WEFT_OK)
            return status;
    }
    weft_status status = ARRAY_RESERVE(set->ends, set->room, (size_t)set->count + 1, "a set of strings", error);
    if (status == WEFT_OK) /* at least one byte, so that `bytes` is never NULL */
        status = ARRAY_RESERVE(set->bytes, set->byte_room, set->byte_count + size + 1, "a set of strings", error);
    return status;
}

weft_status string_set_add(struct string_set *set, const void *bytes, size_t size, uint64_t hash, struct error *error)
{
    weft_status status = string_set_make_room(set, size, error);
    if (status != WEFT_OK)
        return status;
    if (size > 0)
        memcpy(set->bytes + set->byte_count, bytes, size);
    set->byte_count += size;
    set->ends[set->count] = set->byte_count;
    string_set_put(set->slots, set->slot_count, set->count, hash);
    set->count++;
    return WEFT_OK;
}

void string_set_clear(struct string_set *set)
{
    set->count = 0;
    set->byte_count = 0;
    if (set->slots)
        memset(set->slots, 0xff, set->slot_count * sizeof *set->slots);
}

void string_set_free(struct string_set *set)
{
    free(set->bytes);
    free(set->ends);
    free(set->slots);
    *set = (struct string_set){0};
}
