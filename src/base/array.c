/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include "base/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 16

weft_status array_grow(void *items, size_t *room, size_t count, size_t size, const char *what, struct error *error)
{
    size_t larger = *room > SIZE_MAX / 2 ? count : 2 * *room, bytes;
    if (larger < ROOM_FIRST)
        larger = ROOM_FIRST;
    if (larger < count)
        larger = count;
    if (__builtin_mul_overflow(larger, size, &bytes))
        return error_memory(error, SIZE_MAX, what);
    void *pointer; /* of any type: its bytes are copied */
    memcpy(&pointer, items, sizeof pointer);
    pointer = realloc(pointer, bytes);
    if (!pointer)
        return error_memory(error, bytes, what);
    memcpy(items, &pointer, sizeof pointer);
    *room = larger;
    return WEFT_OK;
}
