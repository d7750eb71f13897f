/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/walk.h"

struct walker {
    const struct metric_walk *walk;
    const struct metric_part *part;
    int64_t lowest; /* step of what was seen, all of which came later */
};

static bool walk_overlaps(const struct metric_walk *walk, const struct metric_summary *summary)
{
    const int64_t *range = walk->times ? summary->times : summary->steps;
    return range[0] <= walk->to && range[1] >= walk->from;
}

/* It can be drawn as one: all its points are drawn, and they lie within one width. */
static bool fine(const struct walker *walker, const struct metric_summary *summary)
{
    const struct metric_walk *walk = walker->walk;
    const int64_t *range = walk->times ? summary->times : summary->steps;
    return walk->width > 0 && summary->rising && summary->steps[1] <= walker->lowest &&
           summary->steps[1] < walk->below && range[0] >= walk->from && range[1] <= walk->to &&
           (double)range[1] - (double)range[0] <= walk->width;
}

static bool hidden(const struct walker *walker, const struct metric_summary *summary)
{
    return summary->steps[0] > walker->lowest || summary->steps[0] >= walker->walk->below ||
           !walk_overlaps(walker->walk, summary);
}

static void walk_points(struct walker *walker, const struct metric_point *points, size_t count)
{
    const struct metric_walk *walk = walker->walk;
    for (size_t i = count; i-- > 0;) {
        const int64_t step = points[i].step, place = walk->times ? points[i].time : step;
        if (step <= walker->lowest && step < walk->below && place >= walk->from && place <= walk->to)
            walk->take_point(walk->state, &points[i]);
        if (step < walker->lowest)
            walker->lowest = step;
    }
}

static weft_status walk_block(struct walker *walker, int64_t sequence, struct error *error)
{
    struct metric_point points[METRIC_BLOCK_POINTS];
    size_t count;
    weft_status status =
        metric_rows_block(walker->walk->database, walker->part->number, sequence, points, &count, error);
    if (status == WEFT_OK)
        walk_points(walker, points, count);
    return status;
}

/* Summaries `first` to `end` of a level. A call in itself goes one level down, and there are METRIC_LEVELS. */
static weft_status walk_level(struct walker *walker, unsigned level, int64_t first, int64_t end, struct error *error)
{
    struct metric_summary summaries[METRIC_FAN];
    weft_status status = WEFT_OK;
    while (end > first && status == WEFT_OK) {
        const int64_t count = end - first < METRIC_FAN ? end - first : METRIC_FAN;
        end -= count;
        status = metric_rows_summaries(walker->walk->database, walker->part->number, level, end, (size_t)count,
                                       summaries, error);
        for (int64_t i = count; i-- > 0 && status == WEFT_OK;) {
            const struct metric_summary *summary = &summaries[i];
            if (hidden(walker, summary))
                ;
            else if (fine(walker, summary))
                walker->walk->take(walker->walk->state, summary);
            else if (level > 0)
                status = walk_level(walker, level - 1, (end + i) * METRIC_FAN, (end + i + 1) * METRIC_FAN, error);
            else
                status = walk_block(walker, end + i, error);
            if (summary->steps[0] < walker->lowest)
                walker->lowest = summary->steps[0];
        }
    }
    return status;
}

weft_status metric_walk(const struct metric_walk *walk, const struct metric_part *part, int64_t *first,
                        struct error *error)
{
    struct walker walker = {walk, part, INT64_MAX};
    weft_status status = WEFT_OK;
    walk_points(&walker, part->tail, part->count);
    int64_t end = part->blocks; /* summaries of the level */
    for (unsigned level = 0; level < METRIC_LEVELS && status == WEFT_OK; level++, end /= METRIC_FAN) {
        const int64_t begin = level + 1 < METRIC_LEVELS ? end / METRIC_FAN * METRIC_FAN : 0;
        status = walk_level(&walker, level, begin, end, error);
    }
    if (status == WEFT_OK && walker.lowest < *first)
        *first = walker.lowest;
    return status;
}
