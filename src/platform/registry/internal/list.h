/* SPDX-License-Identifier: Apache-2.0 */
/** For the files of the registry: a list that grows while rows are read. */
#ifndef WEFT_PLATFORM_REGISTRY_INTERNAL_LIST_H
#define WEFT_PLATFORM_REGISTRY_INTERNAL_LIST_H

#include "platform/store/database.h"

#include <stdlib.h>

struct registry_list {
    char *items;
    size_t count, room;
    bool failed; /**< memory ran out */
};

/** Room for one item of `size` bytes more, zeroed; NULL if memory ran out. All items of a list have one size. */
static inline void *registry_list_add(struct registry_list *list, size_t size)
{
    if (list->count == list->room) {
        size_t more = list->room ? 2 * list->room : 16;
        char *grown = realloc(list->items, more * size);
        if (!grown) {
            list->failed = true;
            return NULL;
        }
        list->items = grown;
        list->room = more;
    }
    return __builtin_memset(list->items + list->count++ * size, 0, size);
}

/** The next row of `select`, and room for its item as above; NULL after the last row or if memory ran out. */
static inline void *registry_list_next(struct registry_list *list, struct statement *select, size_t size)
{
    return statement_next(select) ? registry_list_add(list, size) : NULL;
}

/** End `select`, and free the items: what was read is of no use. Returns `status`. */
static inline weft_status registry_list_drop(struct registry_list *list, struct statement *select, weft_status status)
{
    statement_end(select, NULL);
    free(list->items);
    return status;
}

/** End `select` and hand the items over, or free them if reading or memory failed. */
static inline weft_status registry_list_end(struct registry_list *list, struct statement *select, void *items,
                                            size_t *count, struct error *error)
{
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && list->failed)
        status = error_memory(error, list->room, "a list of the registry");
    if (status != WEFT_OK) {
        free(list->items);
        return status;
    }
    *(void **)items = list->items;
    *count = list->count;
    return WEFT_OK;
}

#endif
