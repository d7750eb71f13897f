/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What waits to be written, and the flush that writes it. For platform/metrics/store/store.c.
 *
 * A flush is one transaction: whole blocks and their summaries; marks; the spool's new rows; some tails that are in the
 * spool alone for long, after which the rows that nobody needs any more are dropped. Memory changes only when the
 * transaction is there: one that fails is simply tried again.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_INTERNAL_FLUSH_H
#define WEFT_PLATFORM_METRICS_STORE_INTERNAL_FLUSH_H

#include "platform/metrics/store/internal/marks.h"
#include "platform/metrics/store/internal/series.h"

/** A row that waits: a block, or a summary. */
struct metric_waiting {
    struct metric_series *series;
    int level; /**< -1: a block */
    int64_t sequence;
    size_t at, size; /**< its bytes */
};

struct metric_flush {
    struct metric_waiting *waiting;
    size_t count, room;
    uint8_t *bytes; /**< of all that waits */
    size_t used, size;

    struct metric_marks marks;

    struct metric_series *listed;       /**< series that have points that are not safe */
    struct metric_series *first, *last; /**< queue of those whose tail is in the spool alone, the longest first */
    size_t queued;
    int64_t number;     /**< of flushes */
    int64_t next_spool; /**< number of the spool's next row */
    uint8_t *spool;     /**< the row that is being written */
    size_t spooled;
};

/** The series has points that are not safe. */
void metric_flush_list(struct metric_flush *flush, struct metric_series *series);

/** Its tail is in the spool alone, from row `spool` on. */
void metric_flush_queue(struct metric_flush *flush, struct metric_series *series, int64_t spool);

/** The tail of the series is full: make a whole block of it, with its summaries. Errors: MEMORY. */
weft_status metric_flush_block(struct metric_flush *flush, struct metric_series *series, struct database *database,
                               struct error *error);

/** Write all of it. `all`: every tail too, so that the spool is empty. */
weft_status metric_flush_write(struct metric_flush *flush, struct database *database, bool all, struct error *error);

/** Whether there is nothing to write. */
bool metric_flush_idle(const struct metric_flush *flush);

/** Take one row of the spool apart (see metric_rows_each_spool()): `take` gets each piece of a series. Errors: DATA. */
typedef weft_status metric_flush_take(void *state, int64_t series, int64_t block, size_t offset,
                                      const struct metric_point *points, size_t count, struct error *error);
weft_status metric_flush_read(const uint8_t *bytes, size_t size, metric_flush_take *take, void *state,
                              struct error *error);

void metric_flush_free(struct metric_flush *flush);

#endif
