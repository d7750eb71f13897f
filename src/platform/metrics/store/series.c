/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/internal/series.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROOM_LEAST 1024
#define TAIL_LEAST 8

/* ---- table ---- */

static uint64_t series_hash_of(const struct metric_key *key)
{
    const int64_t numbers[] = {key->run, key->attempt, key->rank};
    return hash_bytes(key->name, strlen(key->name), hash_bytes(numbers, sizeof numbers, 0));
}

static bool series_same(const struct metric_key *left, const struct metric_key *right)
{
    return left->run == right->run && left->attempt == right->attempt && left->rank == right->rank &&
           strcmp(left->name, right->name) == 0;
}

struct metric_series *metric_table_find(const struct metric_table *table, const struct metric_key *key)
{
    const uint64_t hash = series_hash_of(key);
    struct metric_series *series = table->room ? table->places[hash & (table->room - 1)] : NULL;
    while (series && (series->hash != hash || !series_same(&series->key, key)))
        series = series->chained;
    return series;
}

static weft_status series_grow(struct metric_table *table, struct error *error)
{
    const size_t room = table->room ? 2 * table->room : ROOM_LEAST;
    struct metric_series **places = calloc(room, sizeof *places);
    if (!places)
        return error_memory(error, room * sizeof *places, "the curves that points come to");
    for (struct metric_series *series = table->newest; series; series = series->older) {
        struct metric_series **place = &places[series->hash & (room - 1)];
        series->chained = *place;
        *place = series;
    }
    free(table->places);
    table->places = places;
    table->room = room;
    return WEFT_OK;
}

static void series_take_out(struct metric_table *table, struct metric_series *series)
{
    *(series->newer ? &series->newer->older : &table->newest) = series->older;
    *(series->older ? &series->older->newer : &table->oldest) = series->newer;
}

static void put_first(struct metric_table *table, struct metric_series *series)
{
    series->newer = NULL;
    series->older = table->newest;
    *(table->newest ? &table->newest->newer : &table->oldest) = series;
    table->newest = series;
}

weft_status metric_table_add(struct metric_table *table, const struct metric_key *key, struct metric_series **series,
                             struct error *error)
{
    const size_t length = strlen(key->name);
    const weft_status status = table->count >= table->room ? series_grow(table, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    struct metric_series *added = calloc(1, sizeof *added + length + 1);
    if (!added)
        return error_memory(error, sizeof *added + length + 1, "a curve that points come to");
    memcpy(added->name, key->name, length + 1);
    added->key = *key;
    added->key.name = added->name;
    added->hash = series_hash_of(key);
    struct metric_series **place = &table->places[added->hash & (table->room - 1)];
    added->chained = *place;
    *place = added;
    put_first(table, added);
    table->count++;
    *series = added;
    return WEFT_OK;
}

void metric_table_touch(struct metric_table *table, struct metric_series *series, uint64_t now)
{
    series->used = now;
    if (table->newest == series)
        return;
    series_take_out(table, series);
    put_first(table, series);
}

void metric_table_remove(struct metric_table *table, struct metric_series *series)
{
    struct metric_series **place = &table->places[series->hash & (table->room - 1)];
    while (*place != series)
        place = &(*place)->chained;
    *place = series->chained;
    series_take_out(table, series);
    table->count--;
    free(series->tail);
    free(series);
}

void metric_table_free(struct metric_table *table)
{
    while (table->newest)
        metric_table_remove(table, table->newest);
    free(table->places);
    *table = (struct metric_table){0};
}

/* ---- points ---- */

weft_status metric_series_add(struct metric_series *series, const struct metric_point *point, struct error *error)
{
    if (series->count - series->stored == series->room) {
        const unsigned room = series->room ? 2 * series->room : TAIL_LEAST;
        struct metric_point *tail = realloc(series->tail, room * sizeof *tail);
        if (!tail)
            return error_memory(error, room * sizeof *tail, "points of metrics");
        series->tail = tail;
        series->room = room;
    }
    series->tail[series->count++ - series->stored] = *point;
    return WEFT_OK;
}

void metric_series_rest(struct metric_series *series)
{
    if (series->settled < series->count)
        return;
    free(series->tail);
    series->tail = NULL;
    series->room = 0;
    series->stored = series->count;
}

weft_status metric_series_points(const struct metric_series *series, struct database *database,
                                 struct metric_point points[METRIC_BLOCK_POINTS], struct error *error)
{
    size_t stored = 0;
    weft_status status = WEFT_OK;
    if (series->stored > 0)
        status = metric_rows_block(database, series->number, series->blocks, points, &stored, error);
    if (status == WEFT_OK && stored < series->stored)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has %zu points in block %" PRId64 " of series %" PRId64 ", and there were %u",
                         database_path(database), stored, series->blocks, series->number, series->stored);
    if (status == WEFT_OK && series->count > series->stored)
        memcpy(points + series->stored, series->tail, (series->count - series->stored) * sizeof *points);
    return status;
}

static weft_status load_levels(struct metric_series *series, struct database *database, struct error *error)
{
    struct metric_summary below[METRIC_FAN];
    int64_t whole = series->blocks; /* summaries of the level below */
    weft_status status = WEFT_OK;
    for (unsigned level = 1; level < METRIC_LEVELS && status == WEFT_OK; level++, whole /= METRIC_FAN) {
        const size_t count = (size_t)(whole % METRIC_FAN);
        if (count > 0)
            status =
                metric_rows_summaries(database, series->number, level - 1, whole - (int64_t)count, count, below, error);
        for (size_t i = 0; i < count && status == WEFT_OK; i++)
            metric_summary_add(&series->levels.partial[level], &below[i]);
        series->levels.filled[level] = (unsigned)count;
    }
    return status;
}

weft_status metric_series_load(struct metric_series *series, struct database *database, struct error *error)
{
    struct metric_point points[METRIC_BLOCK_POINTS];
    int64_t last;
    size_t count = 0;
    weft_status status = metric_rows_last_block(database, series->number, &last, points, &count, error);
    if (status != WEFT_OK)
        return status;
    series->blocks = series->written = count == METRIC_BLOCK_POINTS ? last + 1 : last < 0 ? 0 : last;
    for (size_t i = 0; i < count % METRIC_BLOCK_POINTS && status == WEFT_OK; i++)
        status = metric_series_add(series, &points[i], error);
    series->safe = series->settled = series->count;
    metric_series_rest(series);
    return status == WEFT_OK ? load_levels(series, database, error) : status;
}
