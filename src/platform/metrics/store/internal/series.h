/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Series that points come to, in memory: the points of the block that is being filled, what is needed to go on with the
 * levels, and which of it is in the database. For platform/metrics/store/store.c,
 * platform/metrics/store/flush.c and platform/metrics/query/draw.c.
 *
 * Points go from `tail` to a whole block, whose bytes wait in the store until they are written (platform/metrics/store/store.h says
 * when). What of the block is in its row in the database leaves the memory, so that curves that live for days take no
 * more of it than those that have just begun. A series belongs to the thread of its store.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_INTERNAL_SERIES_H
#define WEFT_PLATFORM_METRICS_STORE_INTERNAL_SERIES_H

#include "platform/metrics/store/internal/rows.h"

struct metric_series {
    struct metric_key key; /**< its name is `name` below */
    uint64_t hash;
    struct metric_series *chained;       /**< the next one in the table's place */
    struct metric_series *newer, *older; /**< in the order of their last points */
    struct metric_series *next_listed, *next_queued;

    int64_t number;  /**< in the database; 0: not made there yet */
    bool made;       /**< in the transaction that is open: undone if that is */
    bool listed;     /**< among those that have points that are not safe */
    bool queued;     /**< among those whose tail is in the spool alone */
    bool settling;   /**< its tail is written by the flush that goes on */
    int64_t spool;   /**< if queued: the spool's first row that has points of it */
    int64_t flushed; /**< and the flush that wrote it */
    uint64_t used;   /**< clock_now() of the last points */

    int64_t blocks;            /**< whole ones */
    int64_t written;           /**< of these, those in the database */
    unsigned count;            /**< points after the last whole block */
    unsigned safe;             /**< of them, those in the spool or in a row of metric_block */
    unsigned settled;          /**< of them, those in a row of metric_block */
    unsigned stored;           /**< of them, those that are there alone */
    struct metric_point *tail; /**< the others: count - stored */
    unsigned room;             /**< of `tail` */
    struct metric_levels levels;
    char name[];
};

/** Series by their keys. */
struct metric_table {
    struct metric_series **places;
    size_t room, count; /**< room is a power of two */
    struct metric_series *newest, *oldest;
};

/** The series of that key, or NULL. */
struct metric_series *metric_table_find(const struct metric_table *table, const struct metric_key *key);

/** Add an empty one; the table owns it. Errors: MEMORY. */
weft_status metric_table_add(struct metric_table *table, const struct metric_key *key, struct metric_series **series,
                             struct error *error);

/** It has got points now. */
void metric_table_touch(struct metric_table *table, struct metric_series *series, uint64_t now);

/** Take it out and free it; free all. */
void metric_table_remove(struct metric_table *table, struct metric_series *series);
void metric_table_free(struct metric_table *table);

/** Read what the database has of series->number: its last block if that is not whole, and the open ends of the levels.
 */
weft_status metric_series_load(struct metric_series *series, struct database *database, struct error *error);

/** Add a point to the tail, which must not be full; when it is full afterwards it is the caller's to empty it. */
weft_status metric_series_add(struct metric_series *series, const struct metric_point *point, struct error *error);

/** Where all of its points are settled, have them leave the memory. */
void metric_series_rest(struct metric_series *series);

/** All `count` points after the last whole block. Errors: those of reading its row. */
weft_status metric_series_points(const struct metric_series *series, struct database *database,
                                 struct metric_point points[METRIC_BLOCK_POINTS], struct error *error);

#endif
