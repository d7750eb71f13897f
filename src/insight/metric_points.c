/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/metric_points.h"

#include "insight/metric_choice.h"

static weft_status pass_on(const struct metric_point *points, size_t count, const struct metric_chosen *chosen,
                           metric_points_take *take, void *state, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = take(state, chosen->rank, chosen->attempt, &points[i], error);
    return status;
}

static weft_status each_of(struct metric_store *store, int64_t run, const char *name,
                           const struct metric_chosen *chosen, metric_points_take *take, void *state,
                           struct error *error)
{
    struct metric_point tail[METRIC_BLOCK_POINTS], points[METRIC_BLOCK_POINTS];
    struct metric_part part;
    size_t count;
    weft_status status = metric_choice_part(store, run, name, chosen, tail, &part, error);
    for (int64_t block = 0; status == WEFT_OK && block < part.blocks; block++) {
        status = metric_rows_block(metric_store_database(store), part.number, block, points, &count, error);
        if (status == WEFT_OK)
            status = pass_on(points, count, chosen, take, state, error);
    }
    return status == WEFT_OK ? pass_on(part.tail, part.count, chosen, take, state, error) : status;
}

weft_status metric_points_each(struct metric_store *store, int64_t run, const char *name, int64_t rank, int64_t attempt,
                               metric_points_take *take, void *state, struct error *error)
{
    struct metric_choice choice = {0};
    metric_store_put_blocks(store);
    weft_status status = metric_choose(store, run, name, rank, attempt, &choice, error);
    for (size_t first = 0, end; first < choice.count && status == WEFT_OK; first = end) {
        for (end = first; end < choice.count && choice.series[end].rank == choice.series[first].rank;)
            end++;
        for (size_t i = end; i-- > first && status == WEFT_OK;) /* attempts fall in a choice */
            status = each_of(store, run, name, &choice.series[i], take, state, error);
    }
    metric_choice_free(&choice);
    return status;
}

/* The newest point of a series. */
static weft_status last_of(struct metric_store *store, int64_t run, const char *name,
                           const struct metric_chosen *chosen, struct metric_point *point, bool *found,
                           struct error *error)
{
    struct metric_point points[METRIC_BLOCK_POINTS];
    struct metric_part part = {0};
    size_t count = 0;
    weft_status status = metric_choice_part(store, run, name, chosen, points, &part, error);
    const struct metric_point *last = part.count > 0 ? &part.tail[part.count - 1] : NULL;
    if (status == WEFT_OK && !last && part.blocks > 0) {
        status = metric_rows_block(metric_store_database(store), part.number, part.blocks - 1, points, &count, error);
        last = &points[count - 1];
    }
    if (status != WEFT_OK)
        return status;
    *found = last != NULL;
    if (last)
        *point = *last;
    return WEFT_OK;
}

weft_status metric_points_last(struct metric_store *store, int64_t run, const char *name, int64_t rank,
                               struct metric_point *point, bool *found, struct error *error)
{
    struct metric_choice choice = {0};
    bool any = false;
    metric_store_put_blocks(store);
    weft_status status = metric_choose(store, run, name, rank, METRIC_ANY, &choice, error);
    if (status == WEFT_OK && choice.count > 0)
        status = last_of(store, run, name, &choice.series[0], point, &any, error);
    metric_choice_free(&choice);
    if (status == WEFT_OK)
        *found = any;
    return status;
}

weft_status metric_points_newest(struct metric_store *store, int64_t run, const char *name, metric_points_take *take,
                                 void *state, struct error *error)
{
    struct metric_choice choice = {0};
    metric_store_put_blocks(store);
    weft_status status = metric_choose(store, run, name, METRIC_ANY, METRIC_ANY, &choice, error);
    for (size_t i = 0; i < choice.count && status == WEFT_OK; i++) {
        struct metric_point point;
        bool found;
        status = last_of(store, run, name, &choice.series[i], &point, &found, error);
        if (status == WEFT_OK && found)
            status = take(state, choice.series[i].rank, choice.series[i].attempt, &point, error);
    }
    metric_choice_free(&choice);
    return status;
}
