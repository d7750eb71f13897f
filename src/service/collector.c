/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collector.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEHIND_MS 10 /* until more is read again of what the store lacks */

struct collector {
    struct metric_store *store;
    struct run_metrics *runs;
    struct error trouble; /* what was told last */
};

weft_status collector_open(const struct collector_config *config, struct collector **collector, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct collector *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the collector of metrics");
    weft_status status = file_join(path, config->folder, "metrics.db", error);
    if (status == WEFT_OK)
        status = metric_store_open(path, &(struct metric_options){0}, &made->store, error);
    const struct run_metrics_config runs = {
        .store = made->store, .registry = config->registry, .engine = config->engine};
    if (status == WEFT_OK)
        status = run_metrics_open(&runs, &made->runs, error);
    if (status != WEFT_OK) {
        collector_close(made);
        return status;
    }
    *collector = made;
    return WEFT_OK;
}

void collector_close(struct collector *collector)
{
    struct error error = {0};
    if (!collector)
        return;
    run_metrics_close(collector->runs);
    if (metric_store_close(collector->store, &error) != WEFT_OK)
        fprintf(stderr, "weft: the newest metrics are not kept yet: %s\n", error.text);
    free(collector);
}

controller_sink *collector_sink(struct collector *collector, void **context)
{
    *context = collector->runs;
    return run_metrics_take;
}

struct metric_store *collector_store(struct collector *collector)
{
    return collector->store;
}

struct run_metrics_counts collector_counts(const struct collector *collector)
{
    return run_metrics_counts(collector->runs);
}

/* A disk that is full for an hour is told of once, and when it is over. */
static void tell(struct collector *collector, const struct error *error)
{
    if (error->status != WEFT_OK && strcmp(collector->trouble.text, error->text) != 0)
        fprintf(stderr, "weft: metrics cannot be kept at the moment: %s\n", error->text);
    else if (error->status == WEFT_OK && collector->trouble.status != WEFT_OK)
        fprintf(stderr, "weft: metrics are kept again\n");
    collector->trouble = *error;
}

int64_t collector_tick(struct collector *collector)
{
    struct error error = {0};
    uint32_t behind;
    run_metrics_tick(collector->runs, clock_now(), &behind, &error);
    tell(collector, &error);
    if (behind > 0 && error.status == WEFT_OK)
        return BEHIND_MS;
    return (int64_t)(metric_store_due(collector->store, clock_now()) * 1000) + 1;
}
