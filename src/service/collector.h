/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What is measured, kept: the metrics of runs (platform/run_metrics.h) in the database of metrics. Of the keeper's
 * thread.
 */
#ifndef WEFT_SERVICE_COLLECTOR_H
#define WEFT_SERVICE_COLLECTOR_H

#include "platform/run_metrics.h"

struct collector;

struct collector_config {
    const char *folder;        /**< of the state: metrics.db is there */
    struct database *registry; /**< outlives it, as the engine does */
    struct engine *engine;
};

/** Errors: those of the database of metrics, and of run_metrics_open(). */
weft_status collector_open(const struct collector_config *config, struct collector **collector, struct error *error);

/** NULL is allowed. What cannot be written any more is told on standard error. */
void collector_close(struct collector *collector);

/** For the controller: its sink, and the context of that. */
controller_sink *collector_sink(struct collector *collector, void **context);

struct metric_store *collector_store(struct collector *collector);
struct run_metrics_counts collector_counts(const struct collector *collector);

/** Do what is due. Returns milliseconds until it is to be called again. */
int64_t collector_tick(struct collector *collector);

#endif
