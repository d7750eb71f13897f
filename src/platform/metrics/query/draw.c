/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/query/draw.h"

#include "platform/metrics/query/internal/align.h"
#include "platform/metrics/store/walk.h"

#include <math.h>
#include <stdlib.h>

#define SINGLE_MOST 262144 /* points that are put in order to see whether they need no parts */

double metric_summary_mean(const struct metric_summary *summary)
{
    const uint64_t finite = metric_summary_finite(summary);
    const double mean = summary->sum / (double)finite;
    if (finite == 0)
        return NAN;
    /* The sum may have run over, or have been rounded. */
    return fmin(fmax(mean, summary->lowest.value), summary->highest.value);
}

struct metric_spread metric_curve_spread(const struct metric_curve *curve, size_t i)
{
    const struct metric_summary *part = &curve->parts[i];
    if (curve->spreads)
        return curve->spreads[i];
    if (metric_summary_finite(part) == 0)
        return (struct metric_spread){NAN, NAN, NAN};
    return (struct metric_spread){metric_summary_mean(part), part->lowest.value, part->highest.value};
}

/* ---- extent ---- */

/* The part of the axis that has something to draw, and how much. */
struct draw_extent {
    bool times;
    int64_t least, greatest;
    uint64_t points;
};

static void draw_widen(struct draw_extent *extent, int64_t least, int64_t greatest, uint64_t points)
{
    if (extent->points == 0 || least < extent->least)
        extent->least = least;
    if (extent->points == 0 || greatest > extent->greatest)
        extent->greatest = greatest;
    extent->points += points;
}

static void take_extent(void *state, const struct metric_summary *summary)
{
    struct draw_extent *extent = state;
    const int64_t *range = extent->times ? summary->times : summary->steps;
    draw_widen(extent, range[0], range[1], summary->count);
}

static void take_extent_point(void *state, const struct metric_point *point)
{
    struct draw_extent *extent = state;
    const int64_t place = extent->times ? point->time : point->step;
    draw_widen(extent, place, place, 1);
}

/* ---- equal parts ---- */

struct parts {
    bool times;
    double least, width;
    size_t count;
    struct metric_summary *parts;
};

static struct metric_summary *draw_part_at(const struct parts *parts, double place)
{
    const double index = (place - parts->least) / parts->width;
    return &parts->parts[index < 0 ? 0 : index >= (double)parts->count ? parts->count - 1 : (size_t)index];
}

static void draw_take_part(void *state, const struct metric_summary *summary)
{
    const struct parts *parts = state;
    const int64_t *range = parts->times ? summary->times : summary->steps;
    metric_summary_add(draw_part_at(parts, ((double)range[0] + (double)range[1]) / 2), summary);
}

static void take_part_point(void *state, const struct metric_point *point)
{
    const struct parts *parts = state;
    metric_summary_point(draw_part_at(parts, (double)(parts->times ? point->time : point->step)), point);
}

static weft_status draw_parts(struct metric_store *store, const struct metric_query *query,
                              const struct metric_choice *choice, const struct draw_extent *extent, size_t most,
                              struct metric_curve *curve, struct error *error)
{
    const size_t count = most > 1 ? most / 2 : 1;
    struct parts parts = {.times = extent->times, .least = (double)extent->least, .count = count};
    parts.width = fmax(((double)extent->greatest - (double)extent->least) / (double)count, 1e-9);
    parts.parts = calloc(count, sizeof *parts.parts);
    if (!parts.parts)
        return error_memory(error, count * sizeof *parts.parts, "a curve");
    struct metric_walk walk = {.times = query->axis == METRIC_TIMES,
                               .from = query->from,
                               .to = query->to,
                               .width = parts.width,
                               .take = draw_take_part,
                               .take_point = take_part_point,
                               .state = &parts};
    const weft_status status = metric_choice_walk(store, query->run, query->name, choice, &walk, error);
    if (status != WEFT_OK) {
        free(parts.parts);
        return status;
    }
    curve->parts = parts.parts;
    for (size_t i = 0; i < count; i++)
        if (parts.parts[i].count > 0)
            curve->parts[curve->count++] = parts.parts[i];
    return WEFT_OK;
}

/* ---- every point by itself ---- */

struct singles {
    struct metric_summary *points;
    size_t count, room;
};

/* With a width of 0 there are no summaries to take. */
static void take_single(void *state, const struct metric_point *point)
{
    struct singles *singles = state;
    if (singles->count < singles->room)
        singles->points[singles->count++] = metric_summary_of(point, 1);
}

static int draw_by_step(const void *left, const void *right)
{
    const struct metric_summary *one = left, *other = right;
    return (one->steps[0] > other->steps[0]) - (one->steps[0] < other->steps[0]);
}

static int draw_by_time(const void *left, const void *right)
{
    const struct metric_summary *one = left, *other = right;
    return (one->times[0] > other->times[0]) - (one->times[0] < other->times[0]);
}

/* Points of one place become one part. Returns how many points of a picture there are. */
static size_t draw_merge(struct singles *singles, bool times)
{
    size_t kept = 0, drawn = 0;
    int (*const compare)(const void *, const void *) = times ? draw_by_time : draw_by_step;
    qsort(singles->points, singles->count, sizeof *singles->points, compare);
    for (size_t i = 0; i < singles->count; i++) {
        if (kept > 0 && compare(&singles->points[kept - 1], &singles->points[i]) == 0)
            metric_summary_add(&singles->points[kept - 1], &singles->points[i]);
        else
            singles->points[kept++] = singles->points[i];
    }
    for (size_t i = 0; i < kept; i++)
        drawn += singles->points[i].count > 1 ? 2 : 1;
    singles->count = kept;
    return drawn;
}

/* `*drawn` stays false if there are too many. */
static weft_status draw_singles(struct metric_store *store, const struct metric_query *query,
                                const struct metric_choice *choice, uint64_t points, size_t most, bool *drawn,
                                struct metric_curve *curve, struct error *error)
{
    struct singles singles = {.room = (size_t)points};
    struct metric_walk walk = {.times = query->axis == METRIC_TIMES,
                               .from = query->from,
                               .to = query->to,
                               .take_point = take_single,
                               .state = &singles};
    singles.points = malloc((size_t)(points + 1) * sizeof *singles.points);
    if (!singles.points)
        return error_memory(error, (size_t)points * sizeof *singles.points, "a curve");
    const weft_status status = metric_choice_walk(store, query->run, query->name, choice, &walk, error);
    *drawn = status == WEFT_OK && draw_merge(&singles, query->axis == METRIC_TIMES) <= most;
    if (*drawn)
        *curve = (struct metric_curve){.parts = singles.points, .count = singles.count, .whole = true};
    else
        free(singles.points);
    return status;
}

/* ---- curves ---- */

static weft_status draw_draw(struct metric_store *store, const struct metric_query *query,
                             const struct metric_choice *choice, size_t most, struct metric_curve *curve,
                             struct error *error)
{
    struct draw_extent extent = {.times = query->axis == METRIC_TIMES};
    struct metric_walk walk = {.times = query->axis == METRIC_TIMES,
                               .from = query->from,
                               .to = query->to,
                               .width = INFINITY,
                               .take = take_extent,
                               .take_point = take_extent_point,
                               .state = &extent};
    bool drawn = false;
    weft_status status = metric_choice_walk(store, query->run, query->name, choice, &walk, error);
    if (status == WEFT_OK && query->together && extent.times && metric_choice_ranks(choice) > 1 && extent.points > 0) {
        status = metric_align(store, query, choice, (int64_t[]){extent.least, extent.greatest}, extent.points, most,
                              curve, error);
        drawn = true;
    }
    /* Of several ranks, many points may be of few steps. */
    const uint64_t singles = choice->count > 1 ? SINGLE_MOST : most;
    if (status == WEFT_OK && !drawn && extent.points <= singles && extent.points <= (uint64_t)most * choice->count)
        status = draw_singles(store, query, choice, extent.points, most, &drawn, curve, error);
    if (status == WEFT_OK && !drawn)
        status = draw_parts(store, query, choice, &extent, most, curve, error);
    for (size_t i = 0; status == WEFT_OK && i < curve->count; i++) {
        curve->points += curve->parts[i].count;
        curve->nan += curve->parts[i].nan;
        for (int sign = 0; sign < 2; sign++)
            curve->infinite[sign] += curve->parts[i].infinite[sign];
    }
    return status;
}

weft_status metric_draw(struct metric_store *store, const struct metric_query *query, struct metric_curve *curve,
                        struct error *error)
{
    struct metric_choice choice = {0};
    struct metric_curve drawn = {0};
    const size_t most = query->most ? query->most : METRIC_DRAW_MOST;
    metric_store_put_blocks(store);
    /* While a statement is under way, the thousands of others share its view: else each takes locks of its own. */
    struct statement *view = database_prepare(metric_store_database(store), "SELECT series FROM metric_series LIMIT 2");
    statement_next(view);
    weft_status status = metric_choose(store, query->run, query->name, query->rank, query->attempt, &choice, error);
    if (status == WEFT_OK && choice.count > 0)
        status = draw_draw(store, query, &choice, most, &drawn, error);
    metric_choice_free(&choice);
    statement_end(view, NULL);
    if (status == WEFT_OK)
        *curve = drawn;
    return status;
}

void metric_curve_free(struct metric_curve *curve)
{
    free(curve->parts);
    free(curve->spreads);
    *curve = (struct metric_curve){0};
}
