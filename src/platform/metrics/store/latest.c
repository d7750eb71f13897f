/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/latest.h"

#include "platform/metrics/store/choice.h"

#include <math.h>
#include <stdlib.h>

/* The newest point of a series whose step is `most` at most, among its last block and what came after it. */
static weft_status newest(struct metric_store *store, int64_t run, const char *name, const struct metric_chosen *chosen,
                          int64_t most, struct metric_point *point, bool *found, struct error *error)
{
    struct metric_point points[METRIC_BLOCK_POINTS];
    struct metric_part part = {0};
    *found = false;
    weft_status status = metric_choice_part(store, run, name, chosen, points, &part, error);
    size_t count = part.count;
    const struct metric_point *from = part.tail;
    for (int64_t block = part.blocks; status == WEFT_OK; block--) {
        for (size_t i = count; i-- > 0;)
            if (from[i].step <= most) {
                *point = from[i];
                *found = true;
                return WEFT_OK;
            }
        if (block == 0 || block < part.blocks)
            break;
        status = metric_rows_block(metric_store_database(store), part.number, block - 1, points, &count, error);
        from = points;
    }
    return status;
}

/* The newest points of the series of `attempt`; `[i]` belongs to series i, and `has[i]` says whether there is one. */
static weft_status newest_of_all(struct metric_store *store, int64_t run, const char *name,
                                 const struct metric_choice *choice, int64_t attempt, struct metric_point *points,
                                 bool *has, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < choice->count && status == WEFT_OK; i++) {
        has[i] = false;
        if (choice->series[i].attempt == attempt)
            status = newest(store, run, name, &choice->series[i], INT64_MAX, &points[i], &has[i], error);
    }
    return status;
}

static void latest_count_in(struct metric_latest *latest, const struct metric_point *point)
{
    const bool first = latest->ranks++ == 0;
    latest->mean += point->value; /* their sum, for now */
    latest->lowest = first ? point->value : fmin(latest->lowest, point->value);
    latest->highest = first ? point->value : fmax(latest->highest, point->value);
    if (first || point->time > latest->time)
        latest->time = point->time;
}

static weft_status latest_sum_up(struct metric_store *store, int64_t run, const char *name,
                                 const struct metric_choice *choice, const struct metric_point *points, bool *has,
                                 struct metric_latest *latest, struct error *error)
{
    int64_t time = INT64_MIN, step = INT64_MAX;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < choice->count; i++)
        if (has[i] && points[i].time > time)
            time = points[i].time;
    for (size_t i = 0; i < choice->count; i++) {
        has[i] = has[i] && time - points[i].time <= METRIC_LATEST_SECONDS * 1000000LL;
        if (has[i] && points[i].step < step)
            step = points[i].step;
    }
    *latest = (struct metric_latest){.step = step};
    for (size_t i = 0; i < choice->count && status == WEFT_OK; i++) {
        struct metric_point point = points[i];
        bool found = has[i];
        if (found && point.step > step)
            status = newest(store, run, name, &choice->series[i], step, &point, &found, error);
        if (status == WEFT_OK && found)
            latest_count_in(latest, &point);
    }
    latest->mean /= (double)latest->ranks;
    return status;
}

weft_status metric_latest(struct metric_store *store, int64_t run, const char *name, struct metric_latest *latest,
                          bool *found, struct error *error)
{
    struct metric_choice choice = {0};
    struct metric_latest made = {0};
    struct metric_point *points = NULL;
    bool *has = NULL, any = false;
    int64_t attempt = INT64_MIN;
    metric_store_put_blocks(store);
    /* While a statement is under way, the many others share its view: else each takes locks of its own. */
    struct statement *view = database_prepare(metric_store_database(store), "SELECT series FROM metric_series LIMIT 2");
    statement_next(view);
    weft_status status = metric_choose(store, run, name, METRIC_ANY, METRIC_ANY, &choice, error);
    for (size_t i = 0; i < choice.count; i++)
        if (choice.series[i].attempt > attempt)
            attempt = choice.series[i].attempt;
    if (status == WEFT_OK) {
        points = calloc(choice.count + 1, sizeof *points);
        has = calloc(choice.count + 1, sizeof *has);
        status = points && has ? newest_of_all(store, run, name, &choice, attempt, points, has, error)
                               : error_memory(error, choice.count * sizeof *points, "the newest points of a metric");
    }
    for (size_t i = 0; i < choice.count && status == WEFT_OK; i++)
        any = any || has[i];
    if (status == WEFT_OK && any)
        status = latest_sum_up(store, run, name, &choice, points, has, &made, error);
    statement_end(view, NULL);
    metric_choice_free(&choice);
    free(points);
    free(has);
    if (status != WEFT_OK)
        return status;
    *found = any;
    if (any)
        *latest = made;
    return WEFT_OK;
}
