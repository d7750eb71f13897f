/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A set of byte strings, numbered from 0 in the order in which they were added. The caller keeps the data of a string
 * (an id, a count) in a separate array. A set belongs to one thread while it changes.
 */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_STRING_SET_H
#define WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_STRING_SET_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define STRING_SET_NONE UINT32_MAX

struct string_set {
    uint8_t *bytes; /**< all strings, one after the other */
    size_t byte_count, byte_room;
    uint64_t *ends; /**< where each ends in `bytes` */
    uint32_t count;
    size_t room;
    struct string_set_slot {
        uint32_t number, mark; /**< `mark`: bits of the hash that did not choose the slot */
    } * slots;
    size_t slot_count; /**< a power of two, or 0 */
};

/** The hash by which a string is looked up: for callers that look up and then add. */
uint64_t string_set_hash(const void *bytes, size_t size);

/** The number of a string with this hash, or STRING_SET_NONE. */
uint32_t string_set_find(const struct string_set *set, const void *bytes, size_t size, uint64_t hash);

/** Add a string that is not in the set yet; its number is the count before. Errors: MEMORY; the set is as it was. */
weft_status string_set_add(struct string_set *set, const void *bytes, size_t size, uint64_t hash, struct error *error);

/** The bytes of string `number`, valid until the next is added. */
static inline const uint8_t *string_set_get(const struct string_set *set, uint32_t number, size_t *size)
{
    uint64_t begin = number ? set->ends[number - 1] : 0;
    *size = (size_t)(set->ends[number] - begin);
    return set->bytes + begin;
}

/** Forget all strings, and keep the memory for others. */
void string_set_clear(struct string_set *set);

/** Free what the set holds; a zeroed struct is an empty set. */
void string_set_free(struct string_set *set);

#endif
