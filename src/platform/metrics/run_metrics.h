/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What runs report and use, from the journals of their nodes (journal.h) into the store of metrics.
 *
 * Points are made of
 *
 *     JOURNAL_METRICS   lines of metrics (platform/metrics/read/lines.h) that the program has printed, or has appended to the
 *                       file that WEFT_METRICS names, or that the agent has found in TensorBoard's files
 *     JOURNAL_METRICS   of the stream JOURNAL_MEASURED: what the agent has measured (platform/agent/internal/sampler.h)
 *     JOURNAL_USAGE     system/node/processor_time (seconds so far), system/node/memory/resident (bytes),
 *                       system/node/processes; the first alone where no process is left
 *
 * The attempt of a point is the epoch. Its rank is that which the line says, or else what stands before it ("[rank
 * 3]"), or else the number of the node; of measured values it is always the number of the node. Its time is what the
 * line says, or else the record's. Names that begin with "system/" are for what is measured: a program's are left out.
 * The step of a measured value is its time in seconds since 1970, so that no attempt takes a step of another one again.
 *
 * Each record is stored exactly once and none is lost, even after a crash: the store keeps the number of the last
 * record of each node (metric_store_mark()) in the same transaction as the points. So the sink may get a record again,
 * or before the registry's transaction has committed. If the registry has processed more records than the store has
 * (after a crash between the two, or when the store's disk was full), run_metrics_tick() reads the journal again from
 * there, in parts. A record whose journal was removed is lost.
 *
 * Belongs to the thread of its store and engine.
 */
#ifndef WEFT_PLATFORM_METRICS_RUN_METRICS_H
#define WEFT_PLATFORM_METRICS_RUN_METRICS_H

#include "platform/controller/controller.h"
#include "platform/metrics/store/store.h"

struct run_metrics;

/** Receives measured values: a line of node `node` with the time `time` (microseconds since 1970). It may be called
 * within a transaction or without one, and must not change the store. */
typedef void run_metrics_measured(void *context, int64_t run, int64_t epoch, uint32_t node, uint64_t time,
                                  const struct metric_line *line);

struct run_metrics_config {
    struct metric_store *store;
    struct database *registry;      /**< a reader will do */
    struct engine *engine;          /**< that has the journals */
    run_metrics_measured *measured; /**< NULL: nobody */
    void *context;
};

/** Look for what the store lacks. What the config points to outlives it. Errors: those of store and registry; MEMORY.
 */
weft_status run_metrics_open(const struct run_metrics_config *config, struct run_metrics **metrics,
                             struct error *error);
void run_metrics_close(struct run_metrics *metrics);

/**
 * The controller's sink, with the struct run_metrics as its context. A store that is in trouble (its disk is full) is
 * no error of the sink's: what it does not take is read again from the journal later. Errors: MEMORY.
 */
controller_sink run_metrics_take;

/**
 * Flush the store if it is due, and read some of the missing records; call it at least once a second. `behind`
 * receives the number of nodes with missing records; call again soon if it is not 0. Errors: those of the flush, which
 * is retried; no data is lost.
 */
weft_status run_metrics_tick(struct run_metrics *metrics, uint64_t now, uint32_t *behind, struct error *error);

/** The runs that points have come of since the last call, `most` at most of them. How many. */
size_t run_metrics_touched(struct run_metrics *metrics, int64_t *runs, size_t most);

/** What has been counted since it was opened. */
struct run_metrics_counts {
    uint64_t records, points;
    uint64_t refused; /**< values that were left out: too many curves of a run, a name or a step that cannot be kept */
    uint64_t again;   /**< records that had been taken already */
    uint64_t lost;    /**< nodes whose journals were gone when they were to be read again */
};
struct run_metrics_counts run_metrics_counts(const struct run_metrics *metrics);

/**
 * The energy of a run in joules, as the agents of its nodes have measured it, all attempts together; `*known` is false
 * if nothing is known of it.
 */
weft_status run_metrics_energy(struct metric_store *store, int64_t run, double *joules, bool *known,
                               struct error *error);

#endif
