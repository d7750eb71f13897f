/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/choice.h"

#include "base/text.h"
#include "platform/metrics/store/names.h"
#include "platform/store/query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static weft_status choice_add(struct metric_choice *choice, const struct metric_chosen *series, struct error *error)
{
    if (ARRAY_RESERVE(choice->series, choice->room, choice->count + 1, "the ranks of a curve", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    choice->series[choice->count++] = *series;
    return WEFT_OK;
}

/* Whether the run has that metric at all; if not, what it may have been meant for. */
static weft_status choice_check_name(struct metric_store *store, int64_t run, const char *name, struct error *error)
{
    struct metric_name *names;
    size_t count;
    weft_status status = metric_names(store, run, &names, &count, error);
    if (status != WEFT_OK)
        return status;
    const char **texts = calloc(count + 1, sizeof *texts);
    const char *nearest = NULL;
    bool there = false;
    for (size_t i = 0; texts && i < count; i++) {
        texts[i] = names[i].name;
        there |= strcmp(names[i].name, name) == 0;
    }
    if (texts && !there)
        nearest = text_nearest(name, texts, count);
    if (!there)
        status = error_set(error, WEFT_ERROR_DATA, "run %" PRId64 " has no metric '%.200s'%s%s%s", run, name,
                           nearest ? "; is '" : "", nearest ? nearest : "", nearest ? "' meant?" : "");
    free(texts);
    free(names);
    return status;
}

weft_status metric_choose(struct metric_store *store, int64_t run, const char *name, int64_t rank, int64_t attempt,
                          struct metric_choice *choice, struct error *error)
{
    struct error here = {0};
    weft_status status = WEFT_OK;
    struct statement *select = DATABASE_QUERY(metric_store_database(store),
                                              "SELECT series, rank, attempt FROM metric_series WHERE run = ? "
                                              "AND name = ? ORDER BY rank, attempt DESC",
                                              run, name);
    while (status == WEFT_OK && statement_next(select)) {
        const struct metric_chosen series = {statement_integer(select, 0), statement_integer(select, 1),
                                             statement_integer(select, 2)};
        if ((rank == METRIC_ANY || series.rank == rank) && (attempt == METRIC_ANY || series.attempt == attempt))
            status = choice_add(choice, &series, &here);
    }
    const weft_status ended = statement_end(select, error);
    if (ended != WEFT_OK)
        return ended;
    if (status != WEFT_OK)
        return error_set(error, status, "%s", here.text);
    return choice->count == 0 ? choice_check_name(store, run, name, error) : WEFT_OK;
}

weft_status metric_choice_part(struct metric_store *store, int64_t run, const char *name,
                               const struct metric_chosen *chosen, struct metric_point points[METRIC_BLOCK_POINTS],
                               struct metric_part *part, struct error *error)
{
    const struct metric_key key = {run, chosen->attempt, chosen->rank, name};
    const struct metric_series *series = metric_store_series(store, &key);
    if (series) {
        const bool here = series->stored == 0;
        *part = (struct metric_part){chosen->number, series->written, here ? series->tail : points, series->count};
        return here ? WEFT_OK : metric_series_points(series, metric_store_database(store), points, error);
    }
    size_t count = 0;
    int64_t last;
    weft_status status =
        metric_rows_last_block(metric_store_database(store), chosen->number, &last, points, &count, error);
    if (status == WEFT_OK)
        *part = (struct metric_part){chosen->number,
                                     count == METRIC_BLOCK_POINTS ? last + 1
                                     : last < 0                   ? 0
                                                                  : last,
                                     points, count % METRIC_BLOCK_POINTS};
    return status;
}

weft_status metric_choice_walk(struct metric_store *store, int64_t run, const char *name,
                               const struct metric_choice *choice, struct metric_walk *walk, struct error *error)
{
    struct metric_point points[METRIC_BLOCK_POINTS];
    weft_status status = WEFT_OK;
    walk->database = metric_store_database(store);
    for (size_t i = 0; i < choice->count && status == WEFT_OK; i++) {
        struct metric_part part;
        if (i == 0 || choice->series[i].rank != choice->series[i - 1].rank)
            walk->below = INT64_MAX;
        status = metric_choice_part(store, run, name, &choice->series[i], points, &part, error);
        if (status == WEFT_OK)
            status = metric_walk(walk, &part, &walk->below, error);
    }
    return status;
}

size_t metric_choice_ranks(const struct metric_choice *choice)
{
    size_t ranks = 0;
    for (size_t i = 0; i < choice->count; i++)
        ranks += i == 0 || choice->series[i].rank != choice->series[i - 1].rank;
    return ranks;
}

void metric_choice_free(struct metric_choice *choice)
{
    free(choice->series);
    *choice = (struct metric_choice){0};
}
