/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Stores measurements in the database of metrics: the metrics and resource use of runs (platform/metrics/run_metrics.h)
 * and, every few seconds, the occupancy of the cluster (platform/metrics/cluster_history.h) and the load of this
 * machine (observe/telemetry/machine_watch.h, under its names and CLUSTER_RUN). Subscribers get an event for a run with
 * new points, at most once a second:
 *
 *     event: metrics    data: {"run":12,"progress":null}    topic: its project
 *
 * Of the writer's thread.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_COLLECTOR_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_COLLECTOR_H

#include "observe/telemetry/machine_watch.h"
#include "platform/controller/controller.h"
#include "platform/http/events_stream.h"
#include "platform/metrics/run_metrics.h"
#include "platform/metrics/run_use.h"

struct collector;

struct collector_config {
    const char *directory;     /**< of the state: metrics.db is there */
    struct database *registry; /**< outlives it, as the engine does */
    struct engine *engine;
    struct events_stream *events; /**< likewise */
    run_use_policy *idle;         /**< how idle a run may be, with its context; NULL: as run_use.h has it */
    void *context;
};

/** Errors: those of the database of metrics, and of run_metrics_open(). */
weft_status collector_open(const struct collector_config *config, struct collector **collector, struct error *error);

/** NULL is allowed. Data that can no longer be written is reported on standard error. */
void collector_close(struct collector *collector);

/** For the controller: its sink, and the context of that. */
controller_sink *collector_sink(struct collector *collector, void **context);

struct metric_store *collector_store(struct collector *collector);
struct run_use *collector_use(struct collector *collector);           /**< the watch over what runs use */
struct machine_watch *collector_machine(struct collector *collector); /**< NULL: it cannot be watched */

/** For who watches it. */
struct collector_counts {
    struct run_metrics_counts runs;
    uint32_t behind; /**< nodes of which metrics are to be read again */
    bool failing;    /**< the last flush has failed */
};
struct collector_counts collector_counts(const struct collector *collector);

/** Do what is due; `now` is milliseconds since 1970. Returns milliseconds until it is to be called again. */
int64_t collector_tick(struct collector *collector, int64_t now);

/** Set in `policy` (run_use.h) how idle the class of a run lets it be. The first ten minutes of a run do not count, or as
 * many of them as it may be idle. */
void idle_runs_limits(const struct controller *controller, int64_t run, struct usage_policy *policy);

/**
 * Act on what the watch over use has seen since the last call: a run that has done nothing for as long as its class
 * allows is marked, with an event for its owner; if the class has such runs stopped, that happens a quarter of that time
 * later, unless it works again. Outside of transactions. Errors: those of the controller, which is then unusable, as
 * after controller_step().
 */
weft_status idle_runs_heed(struct run_use *use, struct controller *controller, int64_t now, struct error *error);

#endif
