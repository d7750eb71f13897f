/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/internal/rows.h"

#include "platform/store/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The key of a block is the row's own number: no index beside the table, and a curve is read from front to back. */
static const char *const migrations[] = {
    "CREATE TABLE metric_series (series INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, name TEXT NOT NULL,"
    " rank INTEGER NOT NULL, attempt INTEGER NOT NULL, UNIQUE (run, name, rank, attempt)) STRICT;"
    "CREATE TABLE metric_run (run INTEGER PRIMARY KEY, series INTEGER NOT NULL) STRICT;"
    "CREATE TABLE metric_block (block INTEGER PRIMARY KEY, points BLOB NOT NULL) STRICT;"
    "CREATE TABLE metric_summary (series INTEGER NOT NULL, level INTEGER NOT NULL, sequence INTEGER NOT NULL,"
    " summary BLOB NOT NULL, PRIMARY KEY (series, level, sequence)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE metric_spool (number INTEGER PRIMARY KEY, points BLOB NOT NULL) STRICT;",
    "CREATE TABLE metric_mark (run INTEGER NOT NULL, attempt INTEGER NOT NULL, source INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL, PRIMARY KEY (run, attempt, source)) STRICT, WITHOUT ROWID;",
};

const struct database_schema metric_rows_schema = {"the metrics of runs", 0x57464d54, migrations,
                                                   ARRAY_SIZE(migrations)};

static int64_t block_key(int64_t series, int64_t sequence)
{
    return series * METRIC_BLOCKS_MOST + sequence;
}

/* ---- series ---- */

weft_status metric_rows_find(struct database *database, const struct metric_key *key, int64_t *series,
                             struct error *error)
{
    struct statement *select = DATABASE_QUERY(
        database, "SELECT series FROM metric_series WHERE run = ? AND name = ? AND rank = ? AND attempt = ?", key->run,
        key->name, key->rank, key->attempt);
    return statement_end_integer(select, series, error);
}

weft_status metric_rows_last_run(struct database *database, int64_t *run, struct error *error)
{
    struct statement *select = database_prepare(database, "SELECT max(0, ifnull((SELECT max(run) FROM metric_run), 0),"
                                                          " ifnull((SELECT max(run) FROM metric_mark), 0))");
    return statement_end_integer(select, run, error);
}

static weft_status rows_count_in(struct database *database, const struct metric_key *key, int64_t most,
                                 struct error *error)
{
    struct statement *count = DATABASE_QUERY(database,
                                             "INSERT INTO metric_run VALUES (?, 1) ON CONFLICT (run) DO "
                                             "UPDATE SET series = series + 1 RETURNING series",
                                             key->run);
    int64_t series = 0;
    const weft_status status = statement_end_integer(count, &series, error);
    if (status == WEFT_OK && series > most)
        return error_set(error, WEFT_ERROR_DATA,
                         "run %" PRId64 " has %" PRId64 " curves of metrics already, which is the most; '%s' of rank "
                         "%" PRId64 " is left out; use fewer names",
                         key->run, most, key->name, key->rank);
    return status;
}

weft_status metric_rows_make(struct database *database, const struct metric_key *key, int64_t most, int64_t *series,
                             struct error *error)
{
    weft_status status = rows_count_in(database, key, most, error);
    if (status != WEFT_OK)
        return status;
    status = DATABASE_RUN(database, error, "INSERT INTO metric_series (run, name, rank, attempt) VALUES (?, ?, ?, ?)",
                          key->run, key->name, key->rank, key->attempt);
    if (status == WEFT_OK)
        *series = database_last_key(database);
    return status;
}

weft_status metric_rows_key(struct database *database, int64_t series, struct metric_key *key, char *name, size_t size,
                            struct error *error)
{
    struct statement *select =
        DATABASE_QUERY(database, "SELECT run, attempt, rank, name FROM metric_series WHERE series = ?", series);
    *key = (struct metric_key){.name = name};
    if (statement_next(select)) {
        STATEMENT_READ(select, 0, &key->run, &key->attempt, &key->rank);
        statement_copy_text(select, 3, name, size);
    }
    return statement_end(select, error);
}

/* ---- blocks and summaries ---- */

weft_status metric_rows_put_block(struct database *database, int64_t series, int64_t sequence, const uint8_t *bytes,
                                  size_t size, struct error *error)
{
    struct statement *insert =
        DATABASE_QUERY(database, "INSERT OR REPLACE INTO metric_block VALUES (?, ?)", block_key(series, sequence));
    statement_bind_blob(insert, bytes, size);
    return statement_run(insert, error);
}

weft_status metric_rows_put_summary(struct database *database, int64_t series, unsigned level, int64_t sequence,
                                    const uint8_t *bytes, struct error *error)
{
    struct statement *insert =
        DATABASE_QUERY(database, "INSERT OR REPLACE INTO metric_summary VALUES (?, ?, ?, ?)", series, level, sequence);
    statement_bind_blob(insert, bytes, METRIC_SUMMARY_BYTES);
    return statement_run(insert, error);
}

static weft_status read_block(struct database *database, struct statement *select, int64_t series, int64_t *sequence,
                              struct metric_point *points, size_t *count, struct error *error)
{
    bool damaged = false;
    *sequence = -1;
    if (statement_next(select)) {
        size_t size;
        *sequence = statement_integer(select, 0) - block_key(series, 0);
        const uint8_t *bytes = statement_blob(select, 1, &size);
        damaged = !bytes || metric_block_read(bytes, size, "", points, count, NULL, NULL) != WEFT_OK;
    }
    const weft_status status = statement_end(select, error);
    if (status == WEFT_OK && damaged)
        return error_set(error, WEFT_ERROR_DATA, "'%s': block %" PRId64 " of series %" PRId64 " is damaged",
                         database_path(database), *sequence, series);
    return status;
}

weft_status metric_rows_last_block(struct database *database, int64_t series, int64_t *sequence,
                                   struct metric_point points[METRIC_BLOCK_POINTS], size_t *count, struct error *error)
{
    struct statement *select = DATABASE_QUERY(
        database, "SELECT block, points FROM metric_block WHERE block >= ? AND block < ? ORDER BY block DESC LIMIT 1",
        block_key(series, 0), block_key(series + 1, 0));
    return read_block(database, select, series, sequence, points, count, error);
}

weft_status metric_rows_block(struct database *database, int64_t series, int64_t sequence,
                              struct metric_point points[METRIC_BLOCK_POINTS], size_t *count, struct error *error)
{
    int64_t found;
    struct statement *select =
        DATABASE_QUERY(database, "SELECT block, points FROM metric_block WHERE block = ?", block_key(series, sequence));
    const weft_status status = read_block(database, select, series, &found, points, count, error);
    if (status == WEFT_OK && found < 0)
        return error_set(error, WEFT_ERROR_DATA, "'%s' lacks block %" PRId64 " of series %" PRId64,
                         database_path(database), sequence, series);
    return status;
}

weft_status metric_rows_summaries(struct database *database, int64_t series, unsigned level, int64_t first,
                                  size_t count, struct metric_summary summaries[METRIC_FAN], struct error *error)
{
    size_t whole = 0;
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT sequence, summary FROM metric_summary WHERE series = ? AND level = ? AND "
                       "sequence >= ? AND sequence < ? ORDER BY sequence",
                       series, level, first, first + (int64_t)count);
    while (whole < count && statement_next(select) && statement_integer(select, 0) == first + (int64_t)whole) {
        size_t size;
        const uint8_t *bytes = statement_blob(select, 1, &size);
        if (!bytes || metric_summary_read(bytes, size, "", &summaries[whole], NULL) != WEFT_OK)
            break;
        whole++;
    }
    const weft_status status = statement_end(select, error);
    if (status == WEFT_OK && whole < count)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s': summary %" PRId64 " of level %u of series %" PRId64 " is missing or damaged",
                         database_path(database), first + (int64_t)whole, level, series);
    return status;
}

/* ---- spool ---- */

weft_status metric_rows_put_spool(struct database *database, int64_t number, const uint8_t *bytes, size_t size,
                                  struct error *error)
{
    struct statement *insert = DATABASE_QUERY(database, "INSERT INTO metric_spool VALUES (?, ?)", number);
    statement_bind_blob(insert, bytes, size);
    return statement_run(insert, error);
}

weft_status metric_rows_drop_spool(struct database *database, int64_t number, struct error *error)
{
    return DATABASE_RUN(database, error, "DELETE FROM metric_spool WHERE number < ?", number);
}

weft_status metric_rows_each_spool(struct database *database, metric_rows_take *take, void *state, struct error *error)
{
    struct error here = {0};
    weft_status status = WEFT_OK;
    struct statement *select = database_prepare(database, "SELECT number, points FROM metric_spool ORDER BY number");
    while (status == WEFT_OK && statement_next(select)) {
        size_t size;
        const uint8_t *bytes = statement_blob(select, 1, &size);
        status = take(state, statement_integer(select, 0), bytes, bytes ? size : 0, &here);
    }
    const weft_status ended = statement_end(select, error);
    return ended != WEFT_OK || status == WEFT_OK ? ended : error_set(error, status, "%s", here.text);
}

/* ---- marks ---- */

weft_status metric_rows_mark(struct database *database, const struct metric_source *source, uint64_t *sequence,
                             struct error *error)
{
    struct statement *select =
        DATABASE_QUERY(database, "SELECT sequence FROM metric_mark WHERE run = ? AND attempt = ? AND source = ?",
                       source->run, source->attempt, source->number);
    return statement_end_integer(select, (int64_t *)sequence, error);
}

weft_status metric_rows_put_mark(struct database *database, const struct metric_source *source, uint64_t sequence,
                                 struct error *error)
{
    return DATABASE_RUN(database, error, "INSERT OR REPLACE INTO metric_mark VALUES (?, ?, ?, ?)", source->run,
                        source->attempt, source->number, (int64_t)sequence);
}
