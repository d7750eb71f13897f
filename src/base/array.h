/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Arrays: their size, and arrays that grow. base/error.h includes this header.
 *
 * A growing array is three members of a struct, all zero at first: a pointer, the number of items, and the number
 * allocated. free() releases it.
 *
 *     struct hosts { struct host *items; size_t count, room; };
 *
 *     weft_status status = ARRAY_RESERVE(hosts->items, hosts->room, hosts->count + 1, "the hosts", error);
 *     if (status == WEFT_OK)
 *         hosts->items[hosts->count++] = host;
 */
#ifndef WEFT_BASE_ARRAY_H
#define WEFT_BASE_ARRAY_H

#include "weft/weft.h"

#include <stddef.h>

struct error;

/** The number of elements of an array (not of a pointer). */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof *(array))

/**
 * Make room for `count` items in the array at `items`, a pointer; `room` is a size_t, the number that fit. Both are
 * lvalues and are evaluated more than once. Room at least doubles, so that adding items one by one takes time in
 * proportion to their number. New items are not zeroed.
 *
 * Errors: WEFT_ERROR_MEMORY, with `what` as the name of the memory; the array is as before. `error` may be NULL.
 */
#define ARRAY_RESERVE(items, room, count, what, error)                                                                 \
    ((size_t)(count) <= (room) ? WEFT_OK : array_grow(&(items), &(room), (count), sizeof *(items), (what), (error)))

/** The slow path of ARRAY_RESERVE(): `items` is the address of the pointer, `size` the bytes of an item. */
weft_status array_grow(void *items, size_t *room, size_t count, size_t size, const char *what, struct error *error);

#endif
