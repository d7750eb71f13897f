/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The metrics of all runs: points come in, and are kept for good.
 *
 * A point belongs to a run, an attempt, a rank and a name ("train/loss"). Points of one such *series* are kept in the
 * order in which they came, in blocks of 256 (platform/metrics/store/internal/block.h), and summed up by levels (platform/metrics/store/internal/summary.h) as they come.
 * platform/metrics/query/draw.h makes curves of them.
 *
 * What is promised: after kill -9 nothing is lost that came before the last flush, and flushes are METRIC_FLUSH_SECONDS
 * apart (or as the options say) for as long as metric_store_tick() is called when it asks for it. After a power cut the
 * newest transactions may be missing, whole: flushes do not wait for the disk.
 *
 * How: whole blocks are written as rows of their own. The points of blocks that are still being filled are written, all
 * series together, to a *spool*, so that a flush is one transaction and a few rows however many series have got a point
 * each. Half a minute later a half filled block is written as it is, a few at each flush, and the spool is cut; when it
 * is full it is written again. metric_store_open() takes in what is in the spool.
 *
 * When a flush fails (the disk is full), nothing is forgotten: it is tried again at the next tick, and points are
 * taken until METRIC_WAITING_BYTES wait, from then on refused with the message of the failure.
 *
 * Records that are delivered at least once (those of a node's journal, numbered from 1) are stored exactly once, even
 * after a crash: the store keeps the number of the last one of each source, in the same transaction as its points.
 *
 *     status = metric_store_mark(store, &source, &taken, error);
 *     if (status == WEFT_OK && sequence > taken && (status = metric_store_begin(store, error)) == WEFT_OK) {
 *         ... metric_store_append() ...
 *         status = metric_store_end(store, &source, sequence, error);
 *     }
 *
 * A store belongs to one thread. It has a separate database and is its only writer.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_STORE_H
#define WEFT_PLATFORM_METRICS_STORE_STORE_H

#include "platform/metrics/read/lines.h"
#include "platform/metrics/store/internal/block.h"
#include "platform/metrics/store/internal/rows.h"

#define METRIC_FLUSH_SECONDS   1.0
#define METRIC_NUMBER_MOST     (1LL << 53) /**< steps and times lie between minus this and this: doubles hold them */
#define METRIC_WAITING_BYTES   (64u << 20) /**< most that waits while the database cannot be written */
#define METRIC_SERIES_OF_A_RUN 100000      /**< most, unless the options say otherwise */

/** Of a rank or an attempt: all of them. */
#define METRIC_ANY ((int64_t)-1)

struct metric_store;

/** Zero: the default. */
struct metric_options {
    double flush_seconds;
    int64_t series_most;  /**< of a run: names times ranks times attempts */
    size_t open_most;     /**< series in memory, of those that get no points at the moment the oldest go first; 65536 */
    size_t waiting_bytes; /**< METRIC_WAITING_BYTES */
    double idle_seconds;  /**< after which a series that gets no points leaves the memory; 60. One that gets some later
                             is  read again */
};

/** Open the database at `path`, or make it. Errors: those of database_open(); DATA if the spool is damaged. */
weft_status metric_store_open(const char *path, const struct metric_options *options, struct metric_store **store,
                              struct error *error);

/** Write all there is and close; NULL is harmless. The store is gone even if that fails. */
weft_status metric_store_close(struct metric_store *store, struct error *error);

/**
 * Take `count` points of one series, in the order in which they were reported. All of them, or none on an error
 * (some, if memory ran out): ARGUMENT if the name is empty, too long or cannot be printed, or a step or time is out of
 * METRIC_NUMBER_MOST; DATA if the run has too many series; SYSTEM or DATA if the database is in trouble; MEMORY. The
 * same points a second time are more points: who may have sent them twice has to know.
 */
weft_status metric_store_append(struct metric_store *store, const struct metric_key *key,
                                const struct metric_point *points, size_t count, struct error *error);

/** The number of the last record of `source` that was taken; 0: none. Errors: those of the database; MEMORY. */
weft_status metric_store_mark(struct metric_store *store, const struct metric_source *source, uint64_t *sequence,
                              struct error *error);

/**
 * Begin to take a record: nothing is written until metric_store_end(), so that its points and its number are kept
 * together or not at all, and metric_store_append() refuses none of them because too much waits: that is refused here.
 * To append no points of a series makes that, so that whatever the database may refuse can be asked for first.
 */
weft_status metric_store_begin(struct metric_store *store, struct error *error);

/** End it: record `sequence` of `source` has been taken, and all before it. Errors: as metric_store_mark(). */
weft_status metric_store_end(struct metric_store *store, const struct metric_source *source, uint64_t sequence,
                             struct error *error);

/** Seconds from `now` (clock_now()) to when metric_store_tick() is to be called; 0: at once. */
double metric_store_due(const struct metric_store *store, uint64_t now);

/** Flush if it is time. */
weft_status metric_store_tick(struct metric_store *store, uint64_t now, struct error *error);

/** Make all points safe that have come. */
weft_status metric_store_flush(struct metric_store *store, uint64_t now, struct error *error);

/** Whether the last flush has failed: what came since the one before is in memory alone. */
bool metric_store_is_in_trouble(const struct metric_store *store);

/** The largest number of a run that anything is kept of, 0 if there is none. Errors: those of the database. */
weft_status metric_store_last_run(struct metric_store *store, int64_t *run, struct error *error);

/** Its database, for reading. */
struct database *metric_store_database(struct metric_store *store);

/** Write whole blocks that wait, so that they can be read. Where that fails they go on waiting, and the next tick
 * tells. */
void metric_store_put_blocks(struct metric_store *store);

/** What is in memory of a series, or NULL: what platform/metrics/query/draw.c adds to the database's. */
const struct metric_series *metric_store_series(const struct metric_store *store, const struct metric_key *key);

#endif
