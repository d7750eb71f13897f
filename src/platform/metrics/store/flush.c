/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/internal/flush.h"

#include "base/varint.h"

#include <stdlib.h>
#include <string.h>

#define SPOOL_ROW_BYTES                                                                                                \
    ((size_t)256 << 10) /* a row of the spool; pages of a row this long are written one after another */
#define SPOOL_HEAD_BYTES (3 * VARINT_BYTES)
#define SETTLE_AFTER     30 /* flushes */
#define SETTLE_LEAST     64 /* tails at a flush; more if more than 30 times as many wait */

/* ---- what waits ---- */

void metric_flush_list(struct metric_flush *flush, struct metric_series *series)
{
    if (series->listed)
        return;
    series->listed = true;
    series->next_listed = flush->listed;
    flush->listed = series;
}

void metric_flush_queue(struct metric_flush *flush, struct metric_series *series, int64_t spool)
{
    if (series->queued)
        return;
    series->queued = true;
    series->spool = spool;
    series->flushed = flush->number;
    series->next_queued = NULL;
    *(flush->last ? &flush->last->next_queued : &flush->first) = series;
    flush->last = series;
    flush->queued++;
}

/* The first of the queue is no longer in it. */
static void flush_leave(struct metric_flush *flush)
{
    struct metric_series *series = flush->first;
    flush->first = series->next_queued;
    if (!flush->first)
        flush->last = NULL;
    series->queued = false;
    flush->queued--;
}

static weft_status reserve(struct metric_flush *flush, size_t size, struct error *error)
{
    const char *what = "metrics that wait to be written";
    weft_status status = ARRAY_RESERVE(flush->bytes, flush->size, flush->used + size, what, error);
    return status == WEFT_OK ? ARRAY_RESERVE(flush->waiting, flush->room, flush->count + 1, what, error) : status;
}

static void flush_put(struct metric_flush *flush, struct metric_series *series, int level, int64_t sequence,
                      size_t size)
{
    flush->waiting[flush->count++] = (struct metric_waiting){
        .series = series, .level = level, .sequence = sequence, .at = flush->used, .size = size};
    flush->used += size;
}

struct flush_target {
    struct metric_flush *flush;
    struct metric_series *series;
};

/* With block n, the summary of n / 16^level becomes whole. */
static weft_status put_summary(void *state, unsigned level, const struct metric_summary *summary, struct error *error)
{
    const struct flush_target *target = state;
    const weft_status status = reserve(target->flush, METRIC_SUMMARY_BYTES, error);
    if (status != WEFT_OK)
        return status;
    int64_t sequence = target->series->blocks;
    for (unsigned i = 0; i < level; i++)
        sequence /= METRIC_FAN;
    metric_summary_write(summary, target->flush->bytes + target->flush->used);
    flush_put(target->flush, target->series, (int)level, sequence, METRIC_SUMMARY_BYTES);
    return WEFT_OK;
}

weft_status metric_flush_block(struct metric_flush *flush, struct metric_series *series, struct database *database,
                               struct error *error)
{
    struct flush_target target = {flush, series};
    struct metric_point points[METRIC_BLOCK_POINTS];
    const struct metric_levels before = series->levels;
    const size_t count = flush->count, used = flush->used;
    weft_status status = metric_series_points(series, database, points, error);
    if (status == WEFT_OK)
        status = reserve(flush, METRIC_BLOCK_BYTES, error);
    if (status != WEFT_OK)
        return status;
    flush_put(flush, series, -1, series->blocks,
              metric_block_write(points, METRIC_BLOCK_POINTS, flush->bytes + flush->used));
    const struct metric_summary summary = metric_summary_of(points, METRIC_BLOCK_POINTS);
    status = metric_levels_add(&series->levels, &summary, put_summary, &target, error);
    if (status != WEFT_OK) {
        series->levels = before;
        flush->count = count;
        flush->used = used;
        return status;
    }
    series->blocks++;
    series->count = series->safe = series->settled = series->stored = 0;
    metric_flush_list(flush, series);
    return WEFT_OK;
}

/* ---- spool ---- */

static weft_status end_row(struct metric_flush *flush, struct database *database, int64_t *number, struct error *error)
{
    if (flush->spooled == 0)
        return WEFT_OK;
    const size_t size = flush->spooled;
    flush->spooled = 0;
    return metric_rows_put_spool(database, (*number)++, flush->spool, size, error);
}

static weft_status put_piece(struct metric_flush *flush, const struct metric_series *series, struct database *database,
                             int64_t *number, struct error *error)
{
    if (!flush->spool)
        flush->spool = malloc(SPOOL_ROW_BYTES + SPOOL_HEAD_BYTES + METRIC_BLOCK_BYTES);
    if (!flush->spool)
        return error_memory(error, SPOOL_ROW_BYTES, "the spool of metrics");
    uint8_t *at = flush->spool + flush->spooled;
    at = varint_put(at, (uint64_t)series->number);
    at = varint_put(at, (uint64_t)series->blocks);
    at = varint_put(at, series->safe);
    at += metric_block_write(series->tail + (series->safe - series->stored), series->count - series->safe, at);
    flush->spooled = (size_t)(at - flush->spool);
    return flush->spooled >= SPOOL_ROW_BYTES ? end_row(flush, database, number, error) : WEFT_OK;
}

static weft_status put_spool(struct metric_flush *flush, struct database *database, int64_t *number,
                             struct error *error)
{
    weft_status status = WEFT_OK;
    flush->spooled = 0;
    for (struct metric_series *series = flush->listed; series && status == WEFT_OK; series = series->next_listed)
        if (!series->settling && series->safe < series->count)
            status = put_piece(flush, series, database, number, error);
    return status == WEFT_OK ? end_row(flush, database, number, error) : status;
}

weft_status metric_flush_read(const uint8_t *bytes, size_t size, metric_flush_take *take, void *state,
                              struct error *error)
{
    struct metric_point points[METRIC_BLOCK_POINTS];
    struct varint_reader reader = {bytes, bytes + size};
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && reader.at < reader.end) {
        uint64_t series, block, offset;
        size_t count, used;
        if (!varint_get(&reader, &series) || !varint_get(&reader, &block) || !varint_get(&reader, &offset) ||
            series == 0 || series >= METRIC_SERIES_MOST || block >= METRIC_BLOCKS_MOST || offset >= METRIC_BLOCK_POINTS)
            return error_set(error, WEFT_ERROR_DATA, "the spool of metrics is damaged");
        status = metric_block_read(reader.at, (size_t)(reader.end - reader.at), "the spool of metrics", points, &count,
                                   &used, error);
        if (status == WEFT_OK && offset + count >= METRIC_BLOCK_POINTS)
            return error_set(error, WEFT_ERROR_DATA, "the spool of metrics is damaged");
        if (status == WEFT_OK) {
            reader.at += used;
            status = take(state, (int64_t)series, (int64_t)block, (size_t)offset, points, count, error);
        }
    }
    return status;
}

/* ---- a flush ---- */

/* Of those whose transaction was undone, some may have been made in another one that was not. */
static weft_status flush_make_series(struct metric_flush *flush, struct database *database, struct error *error)
{
    weft_status status = WEFT_OK;
    for (struct metric_series *series = flush->listed; series && status == WEFT_OK; series = series->next_listed) {
        if (series->number != 0)
            continue;
        status = metric_rows_find(database, &series->key, &series->number, error);
        if (status == WEFT_OK && series->number == 0)
            status = metric_rows_make(database, &series->key, INT64_MAX, &series->number, error);
        series->made = status == WEFT_OK;
    }
    return status;
}

static weft_status flush_put_waiting(const struct metric_flush *flush, struct database *database, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < flush->count && status == WEFT_OK; i++) {
        const struct metric_waiting *row = &flush->waiting[i];
        const uint8_t *bytes = flush->bytes + row->at;
        if (row->level < 0)
            status = metric_rows_put_block(database, row->series->number, row->sequence, bytes, row->size, error);
        else
            status = metric_rows_put_summary(database, row->series->number, (unsigned)row->level, row->sequence, bytes,
                                             error);
    }
    return status;
}

/* Those that are in the spool for long, a few at each flush: a thousand series that began together do not end up in
 * one flush together. */
static size_t settle_most(const struct metric_flush *flush, bool all)
{
    const size_t share = flush->queued / SETTLE_AFTER;
    return all ? SIZE_MAX : share > SETTLE_LEAST ? share : SETTLE_LEAST;
}

static weft_status put_tail(struct metric_series *series, struct database *database, struct error *error)
{
    uint8_t bytes[METRIC_BLOCK_BYTES];
    struct metric_point points[METRIC_BLOCK_POINTS];
    series->settling = true;
    if (series->settled == series->count)
        return WEFT_OK;
    const weft_status status = metric_series_points(series, database, points, error);
    if (status != WEFT_OK)
        return status;
    const size_t size = metric_block_write(points, series->count, bytes);
    return metric_rows_put_block(database, series->number, series->blocks, bytes, size, error);
}

static weft_status put_tails(struct metric_flush *flush, struct database *database, bool all, struct error *error)
{
    const size_t most = settle_most(flush, all);
    weft_status status = WEFT_OK;
    struct metric_series *series = flush->first;
    for (size_t i = 0; series && i < most && status == WEFT_OK; i++, series = series->next_queued) {
        if (!all && series->flushed + SETTLE_AFTER > flush->number)
            break;
        status = put_tail(series, database, error);
    }
    for (series = all ? flush->listed : NULL; series && status == WEFT_OK; series = series->next_listed)
        if (!series->settling)
            status = put_tail(series, database, error);
    return status;
}

static weft_status write_rows(struct metric_flush *flush, struct database *database, bool all, int64_t *next_spool,
                              struct error *error)
{
    weft_status status = flush_make_series(flush, database, error);
    if (status == WEFT_OK)
        status = flush_put_waiting(flush, database, error);
    if (status == WEFT_OK)
        status = put_tails(flush, database, all, error);
    if (status == WEFT_OK)
        status = put_spool(flush, database, next_spool, error);
    if (status == WEFT_OK)
        status = metric_marks_write(&flush->marks, database, error);
    const struct metric_series *first = flush->first;
    while (first && first->settling)
        first = first->next_queued;
    return status == WEFT_OK ? metric_rows_drop_spool(database, first ? first->spool : flush->next_spool, error)
                             : status;
}

/* The transaction is there: memory says so too. */
static void flush_keep(struct metric_flush *flush)
{
    struct metric_series *next;
    while (flush->first && flush->first->settling) {
        struct metric_series *settled = flush->first;
        settled->settling = false;
        settled->safe = settled->settled = settled->count;
        metric_series_rest(settled);
        flush_leave(flush);
    }
    for (struct metric_series *series = flush->listed; series; series = next) {
        next = series->next_listed;
        series->listed = series->made = false;
        series->written = series->blocks;
        series->safe = series->count;
        if (series->settling)
            series->settled = series->count;
        series->settling = false;
        metric_series_rest(series);
        if (series->settled < series->count)
            metric_flush_queue(flush, series, flush->next_spool);
    }
    flush->listed = NULL;
    flush->count = flush->used = 0;
    metric_marks_written(&flush->marks);
}

/* It is not: nothing has changed, but that numbers of new series are no longer known to be theirs. */
static void take_back(struct metric_flush *flush)
{
    for (struct metric_series *series = flush->first; series; series = series->next_queued)
        series->settling = false;
    for (struct metric_series *series = flush->listed; series; series = series->next_listed) {
        series->settling = false;
        if (series->made)
            series->number = 0;
        series->made = false;
    }
}

weft_status metric_flush_write(struct metric_flush *flush, struct database *database, bool all, struct error *error)
{
    int64_t next_spool = flush->next_spool;
    flush->number++;
    database_group_begin(database, DATABASE_LAZY); /* series were made in it already, perhaps */
    weft_status status = database_begin(database, DATABASE_LAZY, error);
    if (status == WEFT_OK)
        status = database_end(database, write_rows(flush, database, all, &next_spool, error), error);
    const weft_status ended = database_group_end(database, error);
    if (status != WEFT_OK || ended != WEFT_OK) {
        take_back(flush);
        return status != WEFT_OK ? status : ended;
    }
    flush_keep(flush);
    flush->next_spool = next_spool;
    return WEFT_OK;
}

bool metric_flush_idle(const struct metric_flush *flush)
{
    return !flush->listed && flush->count == 0 && !flush->first && !flush->marks.changed;
}

void metric_flush_free(struct metric_flush *flush)
{
    free(flush->waiting);
    free(flush->bytes);
    free(flush->spool);
    metric_marks_free(&flush->marks);
    *flush = (struct metric_flush){0};
}
