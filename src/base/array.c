/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow, and lists of strings. */
#include "base/array.h"

#include "base/error.h"
#include "base/string_list.h"

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

weft_status string_list_add_bytes(struct string_list *list, const char *text, size_t size, struct error *error)
{
    weft_status status = ARRAY_RESERVE(list->items, list->room, list->count + 2, "a list of strings", error);
    if (status != WEFT_OK)
        return status;
    char *copy = strndup(text, size);
    list->items[list->count] = copy;
    if (!copy)
        return error_memory(error, size + 1, "a string");
    list->items[++list->count] = NULL;
    return WEFT_OK;
}

weft_status string_list_add(struct string_list *list, const char *text, struct error *error)
{
    return string_list_add_bytes(list, text, strlen(text), error);
}

weft_status string_list_add_all(struct string_list *list, char *const *items, struct error *error)
{
    weft_status status = WEFT_OK;
    for (; status == WEFT_OK && items && *items; items++)
        status = string_list_add(list, *items, error);
    return status;
}

static int string_compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

void string_list_sort(struct string_list *list)
{
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, string_compare);
}

size_t string_list_find(const struct string_list *list, const char *text)
{
    size_t index = 0;
    while (index < list->count && strcmp(list->items[index], text) != 0)
        index++;
    return index;
}

void string_list_free(struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct string_list){0};
}
