/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A list of strings that grows. The list owns copies. `items` is NULL while the list is empty and otherwise ends with a
 * NULL, so that it can be used as an argv. A list belongs to one thread at a time.
 *
 *     struct string_list names = {0};
 *     status = string_list_add(&names, "first", error);
 *     string_list_free(&names);
 */
#ifndef WEFT_BASE_STRING_LIST_H
#define WEFT_BASE_STRING_LIST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct string_list {
    char **items;
    size_t count, room;
};

/** Append a copy of `text`, or of its first `size` bytes. Errors: MEMORY; the list is as before. */
weft_status string_list_add(struct string_list *list, const char *text, struct error *error);
weft_status string_list_add_bytes(struct string_list *list, const char *text, size_t size, struct error *error);

/** Append copies of all of `items`, which end with NULL; NULL has none. Errors: MEMORY; some may be appended. */
weft_status string_list_add_all(struct string_list *list, char *const *items, struct error *error);

/** Sort by bytes (strcmp). */
void string_list_sort(struct string_list *list);

/** The index of `text`, or the count of items if it is not in the list. */
size_t string_list_find(const struct string_list *list, const char *text);

/** Free all; the list is empty afterwards. */
void string_list_free(struct string_list *list);

#endif
