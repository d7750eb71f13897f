/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tables in which metrics are kept, and each way in which they are read and changed. For metric_*.c of this module.
 *
 *     metric_series   what a number of a series stands for: run, name, rank, attempt
 *     metric_run      how many series a run has
 *     metric_block    points: a row for each block of a series, the last of which may be partly filled
 *     metric_summary  levels: of whole blocks and of METRIC_FAN neighbors of the level below (platform/metrics/store/internal/summary.h)
 *     metric_spool    points of many series that came lately, and are not in metric_block yet
 *     metric_mark     of each source of records, the number of the last one that was taken (platform/metrics/store/internal/marks.h)
 *
 * Numbers of series are never used again. What changes something is called inside a transaction. What blobs hold is
 * checked; errors: those of platform/store/database.h, DATA where a blob is not what it should be.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_INTERNAL_ROWS_H
#define WEFT_PLATFORM_METRICS_STORE_INTERNAL_ROWS_H

#include "base/file/file.h"
#include "platform/metrics/store/internal/summary.h"
#include "platform/store/database.h"

#define METRIC_SERIES_MOST ((int64_t)1 << 35) /**< numbers of series, and of blocks in one of them: the key of a */
#define METRIC_BLOCKS_MOST ((int64_t)1 << 28) /**< block is both, so that a series lies together in the file */

/** What a series is of. */
struct metric_key {
    int64_t run;
    int64_t attempt;
    int64_t rank;
    const char *name; /**< "train/loss" */
};

/** Who sends records that points are made of, one after the other: node `number` of an attempt. */
struct metric_source {
    int64_t run;
    int64_t attempt;
    int64_t number;
};

extern const struct database_schema metric_rows_schema;

/* ---- series ---- */

/** The number of the series; 0 if there is none. */
weft_status metric_rows_find(struct database *database, const struct metric_key *key, int64_t *series,
                             struct error *error);

/** The largest number of a run that anything is kept of, 0 if there is none. */
weft_status metric_rows_last_run(struct database *database, int64_t *run, struct error *error);

/** Make it. Errors: DATA if its run has `most` already. */
weft_status metric_rows_make(struct database *database, const struct metric_key *key, int64_t most, int64_t *series,
                             struct error *error);

/** What series `series` is of; `key->name` is copied to `name`, of `size` bytes. Its run is 0 if there is none. */
weft_status metric_rows_key(struct database *database, int64_t series, struct metric_key *key, char *name, size_t size,
                            struct error *error);

/* ---- blocks and summaries ---- */

weft_status metric_rows_put_block(struct database *database, int64_t series, int64_t sequence, const uint8_t *bytes,
                                  size_t size, struct error *error);
weft_status metric_rows_put_summary(struct database *database, int64_t series, unsigned level, int64_t sequence,
                                    const uint8_t *bytes, struct error *error);

/** The last block of the series; `*sequence` is -1 if it has none. */
weft_status metric_rows_last_block(struct database *database, int64_t series, int64_t *sequence,
                                   struct metric_point points[METRIC_BLOCK_POINTS], size_t *count, struct error *error);

/** Block `sequence`; DATA if it is not there. */
weft_status metric_rows_block(struct database *database, int64_t series, int64_t sequence,
                              struct metric_point points[METRIC_BLOCK_POINTS], size_t *count, struct error *error);

/** `count` (METRIC_FAN at most) summaries from `first` on; DATA if one is not there. */
weft_status metric_rows_summaries(struct database *database, int64_t series, unsigned level, int64_t first,
                                  size_t count, struct metric_summary summaries[METRIC_FAN], struct error *error);

/* ---- spool ---- */

weft_status metric_rows_put_spool(struct database *database, int64_t number, const uint8_t *bytes, size_t size,
                                  struct error *error);

/** Forget those below `number`. */
weft_status metric_rows_drop_spool(struct database *database, int64_t number, struct error *error);

/** Pass on each row, the oldest first; `take` may read other tables. An error of it ends that. */
typedef weft_status metric_rows_take(void *state, int64_t number, const uint8_t *bytes, size_t size,
                                     struct error *error);
weft_status metric_rows_each_spool(struct database *database, metric_rows_take *take, void *state, struct error *error);

/* ---- marks ---- */

/** The mark of a source; 0 if it has none. */
weft_status metric_rows_mark(struct database *database, const struct metric_source *source, uint64_t *sequence,
                             struct error *error);
weft_status metric_rows_put_mark(struct database *database, const struct metric_source *source, uint64_t sequence,
                                 struct error *error);

#endif
