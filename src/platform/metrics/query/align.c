/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/query/internal/align.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMES_MOST 262144 /* points whose times are looked at one by one */

static int align_by_number(const void *left, const void *right)
{
    const int64_t one = *(const int64_t *)left, other = *(const int64_t *)right;
    return (one > other) - (one < other);
}

static int64_t align_part_of(int64_t time, int64_t width)
{
    return time >= 0 ? time / width : -((-(time + 1)) / width) - 1;
}

/* The choice's next rank: series from `*first` on; false: there is none. */
static bool next_rank(const struct metric_choice *choice, size_t *first, struct metric_choice *rank)
{
    const size_t begin = *first;
    while (*first < choice->count && choice->series[*first].rank == choice->series[begin].rank)
        (*first)++;
    *rank = (struct metric_choice){.series = choice->series + begin, .count = *first - begin};
    return rank->count > 0;
}

/* ---- the parts of the axis ---- */

/* Part n reaches from n * width to (n + 1) * width. */
struct grid {
    int64_t width;
    int64_t *parts; /* numbers of those that may have points, rising */
    size_t count;
};

struct align_times {
    int64_t *list;
    size_t count, room;
};

static void align_take_time(void *state, const struct metric_point *point)
{
    struct align_times *times = state;
    if (times->count < times->room)
        times->list[times->count++] = point->time;
}

/* Two digits of it: so that it is the same the next time. */
static int64_t rounded(int64_t number)
{
    int64_t unit = 1;
    while (number / unit >= 100)
        unit *= 10;
    return (number + unit / 2) / unit * unit;
}

/* The times of all points, and the usual time between two of a rank (0: no rank has two). */
static weft_status read_times(struct metric_store *store, const struct metric_query *query,
                              const struct metric_choice *choice, struct align_times *times, int64_t *between,
                              struct error *error)
{
    int64_t *gaps = malloc((times->room + 1) * sizeof *gaps);
    struct metric_choice rank;
    size_t count = 0, first = 0;
    weft_status status = gaps ? WEFT_OK : error_memory(error, times->room * sizeof *gaps, "a curve");
    while (status == WEFT_OK && next_rank(choice, &first, &rank)) {
        const size_t begin = times->count;
        struct metric_walk walk = {
            .times = true, .from = query->from, .to = query->to, .take_point = align_take_time, .state = times};
        status = metric_choice_walk(store, query->run, query->name, &rank, &walk, error);
        qsort(times->list + begin, times->count - begin, sizeof *times->list, align_by_number);
        for (size_t i = begin + 1; i < times->count; i++)
            if (times->list[i] > times->list[i - 1])
                gaps[count++] = times->list[i] - times->list[i - 1];
    }
    if (count > 0)
        qsort(gaps, count, sizeof *gaps, align_by_number);
    *between = count > 0 ? rounded(gaps[count / 2]) : 0;
    free(gaps);
    return status;
}

/* Parts of that width for points at these times, which become their numbers. */
static void grid_of_times(struct grid *grid, struct align_times *times, int64_t width)
{
    size_t kept = 0;
    for (size_t i = 0; i < times->count; i++)
        times->list[i] = align_part_of(times->list[i], width);
    qsort(times->list, times->count, sizeof *times->list, align_by_number);
    for (size_t i = 0; i < times->count; i++)
        if (kept == 0 || times->list[kept - 1] != times->list[i])
            times->list[kept++] = times->list[i];
    *grid = (struct grid){width, times->list, kept};
}

/* Equal parts of the whole extent, `most` at most. */
static weft_status grid_of_extent(struct grid *grid, const int64_t extent[2], size_t most, struct error *error)
{
    int64_t width = (extent[1] - extent[0]) / (int64_t)(most > 2 ? most - 1 : 1) + 1;
    while (align_part_of(extent[1], width) - align_part_of(extent[0], width) >= (int64_t)most &&
           width < METRIC_NUMBER_MOST)
        width *= 2;
    const int64_t first = align_part_of(extent[0], width);
    *grid = (struct grid){.width = width, .count = (size_t)(align_part_of(extent[1], width) - first) + 1};
    if (grid->count > most) /* from before 1970 until after it, there are two of any width: the last one takes it all */
        grid->count = most;
    grid->parts = malloc(grid->count * sizeof *grid->parts);
    if (!grid->parts)
        return error_memory(error, grid->count * sizeof *grid->parts, "a curve");
    for (size_t i = 0; i < grid->count; i++)
        grid->parts[i] = first + (int64_t)i;
    return WEFT_OK;
}

/* Parts as wide as the time between two points of a rank, or, if that are too many, as many as there may be. */
static weft_status make_grid(struct metric_store *store, const struct metric_query *query,
                             const struct metric_choice *choice, const int64_t extent[2], uint64_t points, size_t most,
                             struct grid *grid, struct error *error)
{
    /* With more points of a rank there are too many parts of that width, whatever it is. */
    const bool few = points <= TIMES_MOST && points <= 2 * (uint64_t)most * metric_choice_ranks(choice);
    struct align_times times = {.room = few ? (size_t)points : 0};
    int64_t between = 0;
    weft_status status = WEFT_OK;
    if (times.room > 0) {
        times.list = malloc(times.room * sizeof *times.list);
        status = times.list ? read_times(store, query, choice, &times, &between, error)
                            : error_memory(error, times.room * sizeof *times.list, "a curve");
    }
    if (status == WEFT_OK && times.count > 0) {
        grid_of_times(grid, &times, between > 0 ? between : extent[1] - extent[0] + 1);
        if (grid->count <= most)
            return WEFT_OK;
    }
    free(times.list);
    return status == WEFT_OK ? grid_of_extent(grid, extent, most, error) : status;
}

/* ---- ranks in them ---- */

struct placing {
    const struct grid *grid;
    struct metric_summary *parts; /* of a rank */
};

static struct metric_summary *align_part_at(const struct placing *placing, int64_t time)
{
    const struct grid *grid = placing->grid;
    const int64_t number = align_part_of(time, grid->width);
    size_t least = 0, end = grid->count; /* the last part whose number is not above it */
    while (end - least > 1) {
        const size_t middle = least + (end - least) / 2;
        if (grid->parts[middle] <= number)
            least = middle;
        else
            end = middle;
    }
    return &placing->parts[least];
}

static void align_take_part(void *state, const struct metric_summary *summary)
{
    metric_summary_add(align_part_at(state, summary->times[0] + (summary->times[1] - summary->times[0]) / 2), summary);
}

static void take_point(void *state, const struct metric_point *point)
{
    metric_summary_point(align_part_at(state, point->time), point);
}

/* What all ranks make of a part. */
struct folded {
    struct metric_summary all;
    double sum, ranks, lowest, highest;
};

static void fold_one(struct folded *folded, double mean, double lowest, double highest)
{
    folded->lowest = folded->ranks > 0 ? fmin(folded->lowest, lowest) : lowest;
    folded->highest = folded->ranks > 0 ? fmax(folded->highest, highest) : highest;
    folded->sum += mean;
    folded->ranks++;
}

static void fold(struct folded *folded, const struct grid *grid, const struct metric_summary *parts)
{
    size_t last = grid->count;
    double held = 0;
    for (size_t i = 0; i < grid->count; i++) {
        const struct metric_summary *part = &parts[i];
        metric_summary_add(&folded[i].all, part);
        if (metric_summary_finite(part) > 0) {
            held = metric_summary_mean(part);
            fold_one(&folded[i], held, part->lowest.value, part->highest.value);
            if (i == 1 && last == grid->count && parts[0].count == 0 && grid->parts[1] == grid->parts[0] + 1)
                fold_one(&folded[0], held, held, held); /* it begins a little later than others */
            last = i;
        } else if (part->count == 0 && last < grid->count && grid->parts[i] - grid->parts[last] <= METRIC_ALIGN_HELD) {
            fold_one(&folded[i], held, held, held);
        }
    }
}

static weft_status fold_ranks(struct metric_store *store, const struct metric_query *query,
                              const struct metric_choice *choice, const struct grid *grid, struct folded *folded,
                              struct error *error)
{
    struct metric_summary *parts = malloc(grid->count * sizeof *parts);
    struct metric_choice rank;
    size_t first = 0;
    weft_status status = parts ? WEFT_OK : error_memory(error, grid->count * sizeof *parts, "a curve");
    while (status == WEFT_OK && next_rank(choice, &first, &rank)) {
        struct placing placing = {grid, parts};
        struct metric_walk walk = {.times = true,
                                   .from = query->from,
                                   .to = query->to,
                                   .width = (double)grid->width,
                                   .take = align_take_part,
                                   .take_point = take_point,
                                   .state = &placing};
        memset(parts, 0, grid->count * sizeof *parts);
        status = metric_choice_walk(store, query->run, query->name, &rank, &walk, error);
        if (status == WEFT_OK)
            fold(folded, grid, parts);
    }
    free(parts);
    return status;
}

weft_status metric_align(struct metric_store *store, const struct metric_query *query,
                         const struct metric_choice *choice, const int64_t extent[2], uint64_t points, size_t most,
                         struct metric_curve *curve, struct error *error)
{
    struct grid grid = {0};
    weft_status status =
        make_grid(store, query, choice, extent, points, most > 1 ? most / 2 : 1, &grid, error); /* two a part */
    if (status != WEFT_OK)
        return status;
    struct folded *folded = calloc(grid.count, sizeof *folded);
    struct metric_curve made = {.parts = malloc(grid.count * sizeof *made.parts),
                                .spreads = malloc(grid.count * sizeof *made.spreads)};
    status = folded && made.parts && made.spreads ? fold_ranks(store, query, choice, &grid, folded, error)
                                                  : error_memory(error, grid.count * sizeof *folded, "a curve");
    for (size_t i = 0; status == WEFT_OK && i < grid.count; i++) {
        if (folded[i].all.count == 0)
            continue;
        made.parts[made.count] = folded[i].all;
        made.spreads[made.count++] = folded[i].ranks > 0 ? (struct metric_spread){folded[i].sum / folded[i].ranks,
                                                                                  folded[i].lowest, folded[i].highest}
                                                         : (struct metric_spread){NAN, NAN, NAN};
    }
    free(folded);
    free(grid.parts);
    if (status == WEFT_OK)
        *curve = made;
    else
        metric_curve_free(&made);
    return status;
}
