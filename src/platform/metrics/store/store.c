/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/store.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text.h"
#include "platform/metrics/store/internal/flush.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECKED_MOST ((off_t)1 << 30) /* bytes of a database that is looked through at the start: a second */
#define OPEN_MOST    65536
#define IDLE_SECONDS 60.0

struct metric_store {
    struct database *database;
    struct metric_options options;
    struct metric_table table;
    struct metric_flush flush;
    struct error trouble; /* why the last flush failed */
    uint64_t flushed;     /* clock_now() of the last try */
    uint64_t dropped;     /* of the last look for marks that nobody changes any more */
    bool held;            /* a record is being taken */
};

weft_status metric_store_last_run(struct metric_store *store, int64_t *run, struct error *error)
{
    return metric_rows_last_run(store->database, run, error);
}

struct database *metric_store_database(struct metric_store *store)
{
    return store->database;
}

const struct metric_series *metric_store_series(const struct metric_store *store, const struct metric_key *key)
{
    return metric_table_find(&store->table, key);
}

/* ---- open and close ---- */

/* Points of the spool: those that are in a block's row already are passed over. */
static weft_status take_piece(void *state, int64_t number, int64_t block, size_t offset,
                              const struct metric_point *points, size_t count, struct error *error)
{
    struct metric_store *store = state;
    struct metric_key key;
    struct metric_series *series;
    char name[METRIC_NAME_MOST + 1];
    weft_status status = metric_rows_key(store->database, number, &key, name, sizeof name, error);
    if (status != WEFT_OK || key.run == 0) /* the series is gone */
        return status;
    series = metric_table_find(&store->table, &key);
    if (!series) {
        status = metric_table_add(&store->table, &key, &series, error);
        if (status != WEFT_OK)
            return status;
        series->number = number;
        series->used = clock_now();
        if ((status = metric_series_load(series, store->database, error)) != WEFT_OK)
            return status;
    }
    if (series->blocks > block || series->count >= offset + count)
        return WEFT_OK;
    if (series->blocks < block || series->count < offset)
        return error_set(error, WEFT_ERROR_DATA, "the spool of metrics lacks points of '%s' of run %" PRId64, key.name,
                         key.run);
    for (size_t i = series->count - offset; i < count && status == WEFT_OK; i++)
        status = metric_series_add(series, &points[i], error);
    series->safe = series->count;
    return status;
}

static weft_status take_row(void *state, int64_t number, const uint8_t *bytes, size_t size, struct error *error)
{
    struct metric_store *store = state;
    store->flush.next_spool = number + 1;
    return metric_flush_read(bytes, size, take_piece, store, error);
}

/* What came from the spool is written as blocks at once, and the spool is empty. Where that cannot be written (a full
 * disk), the spool stays as it is, and the next flushes try again. */
static weft_status take_spool(struct metric_store *store, struct error *error)
{
    weft_status status = metric_rows_each_spool(store->database, take_row, store, error);
    for (struct metric_series *series = store->table.newest; series; series = series->older)
        if (series->settled < series->count)
            metric_flush_queue(&store->flush, series, 0);
    if (status != WEFT_OK || store->flush.next_spool == 1)
        return status;
    status = metric_flush_write(&store->flush, store->database, true, &store->trouble);
    if (status == WEFT_OK || status == WEFT_ERROR_SYSTEM)
        return WEFT_OK;
    return error_set(error, status, "%s", store->trouble.text);
}

static enum database_access access_of(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && file.st_size > CHECKED_MOST ? DATABASE_WRITER_UNCHECKED : DATABASE_WRITER;
}

static void store_release(struct metric_store *store)
{
    metric_table_free(&store->table);
    metric_flush_free(&store->flush);
    database_close(store->database);
    free(store);
}

weft_status metric_store_open(const char *path, const struct metric_options *options, struct metric_store **store,
                              struct error *error)
{
    struct metric_store *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, sizeof *opened, "the store of metrics");
    opened->options = *options;
    if (options->flush_seconds <= 0)
        opened->options.flush_seconds = METRIC_FLUSH_SECONDS;
    if (options->series_most <= 0)
        opened->options.series_most = METRIC_SERIES_OF_A_RUN;
    if (options->open_most == 0)
        opened->options.open_most = OPEN_MOST;
    if (options->waiting_bytes == 0)
        opened->options.waiting_bytes = METRIC_WAITING_BYTES;
    if (options->idle_seconds <= 0)
        opened->options.idle_seconds = IDLE_SECONDS;
    opened->flush.next_spool = 1;
    opened->flushed = opened->dropped = clock_now();
    weft_status status = database_open(path, &metric_rows_schema, access_of(path), &opened->database, error);
    if (status == WEFT_OK)
        status = take_spool(opened, error);
    if (status != WEFT_OK) {
        store_release(opened);
        return status;
    }
    *store = opened;
    return WEFT_OK;
}

weft_status metric_store_close(struct metric_store *store, struct error *error)
{
    if (!store)
        return WEFT_OK;
    const weft_status status = metric_flush_write(&store->flush, store->database, true, error);
    store_release(store);
    return status;
}

/* ---- flushes ---- */

/* Series that got nothing for long, or the oldest of too many: all of them is in the database. */
static void store_drop_idle(struct metric_store *store, uint64_t now)
{
    const uint64_t idle = (uint64_t)(store->options.idle_seconds * 1e9);
    struct metric_series *series = store->table.oldest, *newer;
    for (; series; series = newer) {
        newer = series->newer;
        if (series->used + idle > now && store->table.count <= store->options.open_most)
            break;
        if (!series->listed && !series->queued)
            metric_table_remove(&store->table, series);
    }
    if (store->dropped + idle > now)
        return;
    metric_marks_drop(&store->flush.marks, now > idle ? now - idle : 0);
    store->dropped = now;
}

weft_status metric_store_flush(struct metric_store *store, uint64_t now, struct error *error)
{
    weft_status status = WEFT_OK;
    store->flushed = now;
    error_clear(&store->trouble);
    if (!metric_flush_idle(&store->flush))
        status = metric_flush_write(&store->flush, store->database, false, &store->trouble);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", store->trouble.text);
    store_drop_idle(store, now);
    return WEFT_OK;
}

void metric_store_put_blocks(struct metric_store *store)
{
    if (store->flush.count > 0)
        metric_store_flush(store, clock_now(), NULL);
}

bool metric_store_is_in_trouble(const struct metric_store *store)
{
    return store->trouble.status != WEFT_OK;
}

double metric_store_due(const struct metric_store *store, uint64_t now)
{
    const double since = now > store->flushed ? (double)(now - store->flushed) / 1e9 : 0;
    return since < store->options.flush_seconds ? store->options.flush_seconds - since : 0;
}

weft_status metric_store_tick(struct metric_store *store, uint64_t now, struct error *error)
{
    return metric_store_due(store, now) > 0 ? WEFT_OK : metric_store_flush(store, now, error);
}

/* ---- points ---- */

static weft_status store_check_name(const char *name, struct error *error)
{
    char printable[METRIC_NAME_MOST + 1], code[TEXT_CODE_BYTES];
    const size_t length = strnlen(name, METRIC_NAME_MOST + 1);
    if (length == 0 || length > METRIC_NAME_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a metric's name has %s; it may have 1 to %d bytes",
                         length ? "more" : "no letters", METRIC_NAME_MOST);
    memcpy(printable, name, length + 1);
    if (!text_is_printable(name, false))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the metric's name '%s' contains %s, which cannot be printed",
                         text_printable_name(printable), text_unprintable_code(name, false, code));
    return WEFT_OK;
}

static weft_status check_points(const struct metric_key *key, const struct metric_point *points, size_t count,
                                struct error *error)
{
    for (size_t i = 0; i < count; i++)
        if (points[i].step < -METRIC_NUMBER_MOST || points[i].step > METRIC_NUMBER_MOST ||
            points[i].time < -METRIC_NUMBER_MOST || points[i].time > METRIC_NUMBER_MOST)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "a point of '%s' has the step %" PRId64 " and the time %" PRId64
                             " us; both must lie within 2^53",
                             key->name, points[i].step, points[i].time);
    return WEFT_OK;
}

/* Its number is had in the transaction that the next flush ends. */
static weft_status store_make_series(struct metric_store *store, struct metric_series *series, struct error *error)
{
    database_group_begin(store->database, DATABASE_LAZY);
    weft_status status = database_begin(store->database, DATABASE_LAZY, error);
    if (status == WEFT_OK)
        status = database_end(
            store->database,
            metric_rows_make(store->database, &series->key, store->options.series_most, &series->number, error), error);
    if (status == WEFT_OK) {
        series->made = true;
        metric_flush_list(&store->flush, series);
    }
    return status;
}

static weft_status open_series(struct metric_store *store, const struct metric_key *key, struct metric_series **series,
                               struct error *error)
{
    weft_status status = store_check_name(key->name, error);
    if (status == WEFT_OK)
        status = metric_table_add(&store->table, key, series, error);
    if (status != WEFT_OK)
        return status;
    status = metric_rows_find(store->database, key, &(*series)->number, error);
    if (status == WEFT_OK)
        status = (*series)->number ? metric_series_load(*series, store->database, error)
                                   : store_make_series(store, *series, error);
    if (status != WEFT_OK)
        metric_table_remove(&store->table, *series);
    return status;
}

static weft_status add_points(struct metric_store *store, struct metric_series *series,
                              const struct metric_point *points, size_t count, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        status = metric_series_add(series, &points[i], error);
        if (status != WEFT_OK || series->count < METRIC_BLOCK_POINTS)
            continue;
        status = metric_flush_block(&store->flush, series, store->database, error);
        if (status != WEFT_OK)
            series->count--; /* a tail is never full */
    }
    return status;
}

static weft_status check_room(const struct metric_store *store, struct error *error)
{
    if (store->flush.used <= store->options.waiting_bytes)
        return WEFT_OK;
    const bool failed = store->trouble.status != WEFT_OK;
    return error_set(error, failed ? store->trouble.status : WEFT_ERROR_MEMORY,
                     "too many metrics wait to be written: %s",
                     failed ? store->trouble.text : "call metric_store_tick()");
}

/* Flush when a lot of data has arrived at once (by default 4 MiB). The next tick returns a failure. */
static void flush_early(struct metric_store *store, uint64_t now)
{
    const size_t early = store->options.waiting_bytes / 16;
    if (store->flush.used > early && store->trouble.status == WEFT_OK)
        metric_store_flush(store, now, NULL);
}

weft_status metric_store_append(struct metric_store *store, const struct metric_key *key,
                                const struct metric_point *points, size_t count, struct error *error)
{
    struct metric_series *series = metric_table_find(&store->table, key);
    weft_status status = check_points(key, points, count, error);
    if (status == WEFT_OK && !store->held)
        status = check_room(store, error);
    if (status == WEFT_OK && !series)
        status = open_series(store, key, &series, error);
    if (status != WEFT_OK || count == 0)
        return status;
    const uint64_t now = clock_now();
    metric_table_touch(&store->table, series, now);
    metric_flush_list(&store->flush, series);
    status = add_points(store, series, points, count, error);
    if (status == WEFT_OK && !store->held)
        flush_early(store, now);
    return status;
}

/* ---- records ---- */

weft_status metric_store_mark(struct metric_store *store, const struct metric_source *source, uint64_t *sequence,
                              struct error *error)
{
    return metric_marks_look(&store->flush.marks, store->database, source, sequence, error);
}

weft_status metric_store_begin(struct metric_store *store, struct error *error)
{
    const weft_status status = check_room(store, error);
    store->held = status == WEFT_OK;
    return status;
}

weft_status metric_store_end(struct metric_store *store, const struct metric_source *source, uint64_t sequence,
                             struct error *error)
{
    struct metric_mark *mark;
    const uint64_t now = clock_now();
    const weft_status status = metric_marks_find(&store->flush.marks, store->database, source, &mark, error);
    if (status == WEFT_OK)
        metric_marks_set(&store->flush.marks, mark, sequence, now);
    store->held = false;
    flush_early(store, now);
    return status;
}
