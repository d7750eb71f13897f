/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/names.h"
#include "platform/store/query.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more of `size` bytes, or NULL. */
static void *store_names_grow(void *items, size_t count, size_t *room, size_t size)
{
    if (items && count < *room)
        return items;
    *room = 2 * *room + 16;
    return realloc(items, *room * size);
}

weft_status metric_names(struct metric_store *store, int64_t run, struct metric_name **names, size_t *count,
                         struct error *error)
{
    size_t found = 0, room = 0;
    struct metric_name *list = store_names_grow(NULL, 0, &room, sizeof *list), *grown = list;
    struct statement *select = DATABASE_QUERY(metric_store_database(store),
                                              "SELECT name, count(DISTINCT rank), count(DISTINCT attempt) FROM "
                                              "metric_series WHERE run = ? GROUP BY name ORDER BY name",
                                              run);
    while (grown && statement_next(select)) {
        grown = store_names_grow(list, found, &room, sizeof *list);
        if (!grown)
            break;
        list = grown;
        struct metric_name *name = &list[found++];
        statement_copy_text(select, 0, name->name, sizeof name->name);
        const char *slash = strrchr(name->name, '/');
        name->group = slash ? (size_t)(slash - name->name) : 0;
        STATEMENT_READ(select, 1, &name->ranks, &name->attempts);
    }
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && !grown)
        status = error_memory(error, room * sizeof *list, "the names of a run's metrics");
    if (status != WEFT_OK) {
        free(list);
        return status;
    }
    *names = list;
    *count = found;
    return WEFT_OK;
}

weft_status metric_ranks(struct metric_store *store, int64_t run, const char *name, int64_t **ranks, size_t *count,
                         struct error *error)
{
    size_t found = 0, room = 0;
    int64_t *list = store_names_grow(NULL, 0, &room, sizeof *list), *grown = list;
    struct statement *select =
        DATABASE_QUERY(metric_store_database(store),
                       "SELECT DISTINCT rank FROM metric_series WHERE run = ? AND name = ? ORDER BY rank", run, name);
    while (grown && statement_next(select)) {
        grown = store_names_grow(list, found, &room, sizeof *list);
        if (!grown)
            break;
        list = grown;
        list[found++] = statement_integer(select, 0);
    }
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && !grown)
        status = error_memory(error, room * sizeof *list, "the ranks of a metric");
    if (status != WEFT_OK) {
        free(list);
        return status;
    }
    *ranks = list;
    *count = found;
    return WEFT_OK;
}
