/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/points.h"

#include "platform/metrics/store/choice.h"

static weft_status points_pass_on(const struct metric_point *points, size_t count, const struct metric_chosen *chosen,
                                  metric_points_take *take, void *state, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = take(state, chosen->rank, chosen->attempt, &points[i], error);
    return status;
}

/* The points of a series from number `*next` on; stops after a block once `*left` have been passed on. */
static weft_status page_of(struct metric_store *store, int64_t run, const char *name,
                           const struct metric_chosen *chosen, uint64_t *next, size_t *left, metric_points_take *take,
                           void *state, struct error *error)
{
    struct metric_point tail[METRIC_BLOCK_POINTS], points[METRIC_BLOCK_POINTS];
    struct metric_part part;
    weft_status status = metric_choice_part(store, run, name, chosen, tail, &part, error);
    while (status == WEFT_OK && *left > 0) {
        const int64_t block = (int64_t)(*next / METRIC_BLOCK_POINTS);
        const size_t skip = (size_t)(*next % METRIC_BLOCK_POINTS);
        const struct metric_point *from = points;
        size_t count = 0;
        if (block < part.blocks) {
            status = metric_rows_block(metric_store_database(store), part.number, block, points, &count, error);
        } else if (block == part.blocks) {
            from = part.tail;
            count = part.count;
        }
        if (status != WEFT_OK || count <= skip)
            break;
        status = points_pass_on(from + skip, count - skip, chosen, take, state, error);
        *next += count - skip;
        *left -= count - skip < *left ? count - skip : *left;
    }
    return status;
}

/* Whether the series comes before the place: ranks rise, then attempts. */
static bool is_behind(const struct metric_place *place, const struct metric_chosen *chosen)
{
    return place->begun &&
           (chosen->rank < place->rank || (chosen->rank == place->rank && chosen->attempt < place->attempt));
}

weft_status metric_points_page(struct metric_store *store, int64_t run, const char *name, int64_t rank, int64_t attempt,
                               struct metric_place *place, size_t most, metric_points_take *take, void *state,
                               bool *done, struct error *error)
{
    struct metric_choice choice = {0};
    metric_store_put_blocks(store);
    weft_status status = metric_choose(store, run, name, rank, attempt, &choice, error);
    *done = false;
    for (size_t first = 0, end; first < choice.count && status == WEFT_OK && most > 0; first = end) {
        for (end = first; end < choice.count && choice.series[end].rank == choice.series[first].rank;)
            end++;
        for (size_t i = end; i-- > first && status == WEFT_OK && most > 0;) { /* attempts fall in a choice */
            const struct metric_chosen *chosen = &choice.series[i];
            if (is_behind(place, chosen))
                continue;
            if (!place->begun || chosen->rank != place->rank || chosen->attempt != place->attempt)
                *place = (struct metric_place){true, chosen->rank, chosen->attempt, 0};
            status = page_of(store, run, name, chosen, &place->next, &most, take, state, error);
        }
    }
    metric_choice_free(&choice);
    *done = most > 0;
    return status;
}

/* The newest point of a series. */
static weft_status points_last_of(struct metric_store *store, int64_t run, const char *name,
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

weft_status metric_points_newest(struct metric_store *store, int64_t run, const char *name, metric_points_take *take,
                                 void *state, struct error *error)
{
    struct metric_choice choice = {0};
    metric_store_put_blocks(store);
    weft_status status = metric_choose(store, run, name, METRIC_ANY, METRIC_ANY, &choice, error);
    for (size_t i = 0; i < choice.count && status == WEFT_OK; i++) {
        struct metric_point point;
        bool found;
        status = points_last_of(store, run, name, &choice.series[i], &point, &found, error);
        if (status == WEFT_OK && found)
            status = take(state, choice.series[i].rank, choice.series[i].attempt, &point, error);
    }
    metric_choice_free(&choice);
    return status;
}
