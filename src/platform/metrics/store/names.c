/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/names.h"

#include "platform/store/query.h"

#include <stdlib.h>
#include <string.h>

/* The end of a list that was read with `status`: freed unless all of it was. */
static weft_status store_names_end(struct statement *select, weft_status status, void *list, struct error *error)
{
    const weft_status ended = statement_end(select, status == WEFT_OK ? error : NULL);
    if (status == WEFT_OK)
        status = ended;
    if (status != WEFT_OK)
        free(list);
    return status;
}

weft_status metric_names(struct metric_store *store, int64_t run, struct metric_name **names, size_t *count,
                         struct error *error)
{
    size_t found = 0, room = 0;
    struct metric_name *list = NULL;
    weft_status status = WEFT_OK;
    struct statement *select = DATABASE_QUERY(metric_store_database(store),
                                              "SELECT name, count(DISTINCT rank), count(DISTINCT attempt) FROM "
                                              "metric_series WHERE run = ? GROUP BY name ORDER BY name",
                                              run);
    while (status == WEFT_OK && statement_next(select)) {
        status = ARRAY_RESERVE(list, room, found + 1, "the names of a run's metrics", error);
        if (status != WEFT_OK)
            break;
        struct metric_name *name = &list[found++];
        statement_copy_text(select, 0, name->name, sizeof name->name);
        const char *slash = strrchr(name->name, '/');
        name->group = slash ? (size_t)(slash - name->name) : 0;
        STATEMENT_READ(select, 1, &name->ranks, &name->attempts);
    }
    status = store_names_end(select, status, list, error);
    if (status != WEFT_OK)
        return status;
    *names = list;
    *count = found;
    return WEFT_OK;
}

weft_status metric_ranks(struct metric_store *store, int64_t run, const char *name, int64_t **ranks, size_t *count,
                         struct error *error)
{
    size_t found = 0, room = 0;
    int64_t *list = NULL;
    weft_status status = WEFT_OK;
    struct statement *select =
        DATABASE_QUERY(metric_store_database(store),
                       "SELECT DISTINCT rank FROM metric_series WHERE run = ? AND name = ? ORDER BY rank", run, name);
    while (status == WEFT_OK && statement_next(select)) {
        status = ARRAY_RESERVE(list, room, found + 1, "the ranks of a metric", error);
        if (status == WEFT_OK)
            list[found++] = statement_integer(select, 0);
    }
    status = store_names_end(select, status, list, error);
    if (status != WEFT_OK)
        return status;
    *ranks = list;
    *count = found;
    return WEFT_OK;
}
