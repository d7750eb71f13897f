/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/collector.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "platform/metrics/cluster_history.h"
#include "platform/registry/run/runs.h"
#include "platform/service/internal/complaint.h"
#include "platform/service/runs/run_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEHIND_MS         10 /* until more is read again of what the store lacks */
#define CENSUS_SECONDS    5.0
#define MACHINE_SECONDS   5.0
#define FORGOTTEN_SECONDS 3600.0 /* a run that nothing was heard of */
#define TELL_SECONDS      1.0
#define TOLD_MOST         100 /* runs with new points that are announced at a time */

struct collector {
    struct database *registry;
    struct events_stream *events;
    struct metric_store *store;
    struct run_metrics *runs;
    struct run_use *use;
    struct machine_watch *machine;
    struct measured_values values; /* of the machine, while they are kept */
    uint64_t machine_sample;       /* the last that was kept */
    uint64_t census_at, tell_at;   /* clock_now() */
    uint32_t behind;
    struct complaint trouble;
};

weft_status collector_open(const struct collector_config *config, struct collector **collector, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct collector *made = calloc(1, sizeof *made);
    struct error unwatched = {0};
    if (!made)
        return error_memory(error, sizeof *made, "the collector of metrics");
    made->registry = config->registry;
    made->events = config->events;
    weft_status status = file_join(path, config->directory, "metrics.db", error);
    if (status == WEFT_OK)
        status = metric_store_open(path, &(struct metric_options){0}, &made->store, error);
    if (status == WEFT_OK)
        status = database_checkpoint_apart(metric_store_database(made->store), error);
    if (status == WEFT_OK)
        status = run_use_open(&(struct run_use_config){config->registry, made->store, config->idle, config->context},
                              &made->use, error);
    const struct run_metrics_config runs = {.store = made->store,
                                            .registry = config->registry,
                                            .engine = config->engine,
                                            .measured = run_use_measured,
                                            .context = made->use};
    if (status == WEFT_OK)
        status = run_metrics_open(&runs, &made->runs, error);
    if (status != WEFT_OK) {
        collector_close(made);
        return status;
    }
    if (machine_watch_start(MACHINE_SECONDS, &made->machine, &unwatched) != WEFT_OK)
        fprintf(stderr, "weft: this machine is not watched: %s\n", unwatched.text);
    *collector = made;
    return WEFT_OK;
}

void collector_close(struct collector *collector)
{
    struct error error = {0};
    if (!collector)
        return;
    machine_watch_stop(collector->machine);
    measured_values_free(&collector->values);
    run_metrics_close(collector->runs);
    run_use_close(collector->use);
    if (metric_store_close(collector->store, &error) != WEFT_OK)
        fprintf(stderr, "weft: the newest metrics are not kept yet: %s\n", error.text);
    free(collector);
}

static weft_status collector_take(void *context, int64_t run, int64_t epoch, uint32_t node,
                                  const struct journal_record *record, struct error *error)
{
    struct collector *collector = context;
    const weft_status status = run_metrics_take(collector->runs, run, epoch, node, record, error);
    if (journal_is_end(record->kind))
        run_use_end(collector->use, run, epoch);
    return status;
}

controller_sink *collector_sink(struct collector *collector, void **context)
{
    *context = collector;
    return collector_take;
}

struct metric_store *collector_store(struct collector *collector)
{
    return collector->store;
}

struct run_use *collector_use(struct collector *collector)
{
    return collector->use;
}

struct machine_watch *collector_machine(struct collector *collector)
{
    return collector->machine;
}

struct collector_counts collector_counts(const struct collector *collector)
{
    return (struct collector_counts){run_metrics_counts(collector->runs), collector->behind,
                                     collector->trouble.told.status != WEFT_OK};
}

/* What cannot be counted or kept now leaves a gap. */
static void count_cluster(struct collector *collector, int64_t now)
{
    struct cluster_census census;
    if (cluster_census(collector->registry, &census, NULL) == WEFT_OK)
        cluster_history_add(collector->store, &census, now, NULL);
}

static void keep_machine(struct collector *collector, int64_t now)
{
    uint64_t number = 0;
    if (!collector->machine || machine_watch_read(collector->machine, &collector->values, &number, NULL) != WEFT_OK ||
        number == collector->machine_sample)
        return;
    collector->machine_sample = number;
    for (uint32_t i = 0; i < collector->values.count; i++) {
        const struct metric_key key = {CLUSTER_RUN, 0, 0, collector->values.values[i].name};
        const struct metric_point point = {now / 1000, now * 1000, collector->values.values[i].value};
        metric_store_append(collector->store, &key, &point, 1, NULL);
    }
}

static void tell_runs(struct collector *collector)
{
    int64_t runs[TOLD_MOST];
    const size_t count = run_metrics_touched(collector->runs, runs, TOLD_MOST);
    for (size_t i = 0; i < count; i++) {
        struct registry_run run;
        struct json_writer data;
        if (registry_run_get(collector->registry, runs[i], &run, NULL) != WEFT_OK)
            continue;
        json_begin_line(&data);
        json_put_integer(&data, "run", runs[i]);
        run_json_put_progress(&data, "progress", &run.progress);
        json_close(&data);
        if (json_text(&data))
            events_publish(collector->events, run.project, "metrics", json_text(&data), NULL);
        json_end(&data);
    }
}

int64_t collector_tick(struct collector *collector, int64_t now)
{
    const uint64_t moment = clock_now();
    struct error error = {0};
    if (moment >= collector->census_at) {
        collector->census_at = clock_after(CENSUS_SECONDS);
        count_cluster(collector, now);
        keep_machine(collector, now);
    }
    if (moment >= collector->tell_at) {
        collector->tell_at = clock_after(TELL_SECONDS);
        tell_runs(collector);
        run_use_forget(collector->use, (uint64_t)now * 1000, FORGOTTEN_SECONDS);
    }
    if (run_metrics_tick(collector->runs, moment, &collector->behind, &error) != WEFT_OK)
        complain(&collector->trouble, "metrics cannot be kept at the moment", &error);
    else if (!metric_store_is_in_trouble(collector->store)) /* or only the time to try again has not come */
        complain_no_more(&collector->trouble, "metrics are kept again");
    if (collector->behind > 0 && error.status == WEFT_OK)
        return BEHIND_MS;
    return (int64_t)(metric_store_due(collector->store, clock_now()) * 1000) + 1;
}

/* ---- idle runs ---- */

/* Of the time that a run may be idle: */
#define WARNING 0.25  /* between the flag and the stop */
#define BUSY    0.125 /* at work for so long it is not idle any more, in that time at the latest */

void idle_runs_limits(const struct controller *controller, int64_t run, struct usage_policy *policy)
{
    int64_t limit;
    controller_idle_limits(controller, run, &limit, &policy->stops);
    policy->idle_seconds = (double)limit;
    policy->stop_seconds = WARNING * policy->idle_seconds;
    policy->busy_seconds = fmin(policy->busy_seconds, BUSY * policy->idle_seconds);
    policy->grace_seconds = fmin(policy->grace_seconds, policy->idle_seconds);
}

weft_status idle_runs_heed(struct run_use *use, struct controller *controller, int64_t now, struct error *error)
{
    struct run_use_told told;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && run_use_next(use, &told)) {
        bool stopped;
        if (told.verdict == USAGE_FINE)
            status = controller_clear_idle(controller, told.run, now, error);
        else if (told.verdict == USAGE_ZOMBIE)
            status = controller_flag_idle(controller, told.run, told.message, now, error);
        else if (told.verdict == USAGE_STOP)
            status = controller_stop_idle(controller, told.run, told.message, now, &stopped, error);
    }
    return status;
}
