/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/run_metrics.h"

#include "base/clock.h"
#include "platform/metrics/store/points.h"
#include "platform/registry/run/runs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOUCHED_MOST 4096

#define AT_ONCE    20000 /* records that are read again at a tick: some 50 ms; */
#define NODES_MOST 500   /* and nodes, some of which have no journals any more: 10 ms */

/* A node of whose records the store lacks some. */
struct behind {
    struct metric_source source;
    uint64_t dealt; /* by the registry: what is lost if the journal is gone */
};

struct run_metrics {
    struct run_metrics_config config;
    struct run_metrics_counts counts;
    struct behind *behind;
    size_t count, room;
    size_t next_touched;
    int64_t touched[TOUCHED_MOST]; /* runs, by their numbers; 0: none. Another one in its place has to wait */
    bool kept[METRIC_LINE_VALUES]; /* of the line that is being taken: the values that the store has a curve for */
    struct metric_line line;
};

size_t run_metrics_touched(struct run_metrics *metrics, int64_t *runs, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < TOUCHED_MOST && count < most; i++) {
        int64_t *run = &metrics->touched[metrics->next_touched++ % TOUCHED_MOST]; /* everybody's turn comes */
        if (*run)
            runs[count++] = *run;
        *run = 0;
    }
    return count;
}

struct run_metrics_counts run_metrics_counts(const struct run_metrics *metrics)
{
    return metrics->counts;
}

/* ---- catching up ---- */

static struct behind *find_behind(const struct run_metrics *metrics, const struct metric_source *source)
{
    for (size_t i = 0; i < metrics->count; i++) {
        const struct metric_source *known = &metrics->behind[i].source;
        if (known->run == source->run && known->attempt == source->attempt && known->number == source->number)
            return &metrics->behind[i];
    }
    return NULL;
}

static weft_status note_behind(struct run_metrics *metrics, const struct metric_source *source, uint64_t dealt,
                               struct error *error)
{
    if (ARRAY_RESERVE(metrics->behind, metrics->room, metrics->count + 1, "nodes whose metrics are to be read again",
                      error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    metrics->behind[metrics->count++] = (struct behind){*source, dealt};
    return WEFT_OK;
}

static weft_status run_metrics_compare(void *state, const struct registry_dealt *dealt, struct error *error)
{
    struct run_metrics *metrics = state;
    const struct metric_source source = {dealt->run, dealt->epoch, dealt->node};
    uint64_t taken;
    weft_status status = metric_store_mark(metrics->config.store, &source, &taken, error);
    return status == WEFT_OK && taken < (uint64_t)dealt->sequence
               ? note_behind(metrics, &source, (uint64_t)dealt->sequence, error)
               : status;
}

weft_status run_metrics_open(const struct run_metrics_config *config, struct run_metrics **metrics, struct error *error)
{
    struct run_metrics *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the metrics of runs");
    made->config = *config;
    const weft_status status = registry_dealt_each(config->registry, run_metrics_compare, made, error);
    if (status != WEFT_OK) {
        run_metrics_close(made);
        return status;
    }
    *metrics = made;
    return WEFT_OK;
}

void run_metrics_close(struct run_metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->behind);
    free(metrics);
}

/* ---- lines ---- */

static bool is_system(const char *name)
{
    return strncmp(name, METRIC_SYSTEM, sizeof METRIC_SYSTEM - 1) == 0;
}

/* Where a line's points go. */
struct run_metrics_target {
    const struct metric_source *source;
    int64_t rank, time;
    bool measured;
};

/* Have a curve for each value. What cannot be kept is left out; a store in trouble is an error. */
static weft_status ask_for_curves(struct run_metrics *metrics, const struct run_metrics_target *target,
                                  struct error *error)
{
    const struct metric_line *line = &metrics->line;
    const bool in_range = llabs(line->step) <= METRIC_NUMBER_MOST && llabs(target->time) <= METRIC_NUMBER_MOST;
    for (size_t i = 0; i < line->count; i++) {
        const struct metric_key key = {target->source->run, target->source->attempt, target->rank,
                                       line->values[i].name};
        struct error refusal = {0};
        weft_status status = WEFT_ERROR_ARGUMENT;
        if (in_range && is_system(key.name) == target->measured)
            status = metric_store_append(metrics->config.store, &key, NULL, 0, &refusal);
        metrics->kept[i] = status == WEFT_OK;
        if (status == WEFT_ERROR_ARGUMENT || status == WEFT_ERROR_DATA) /* of DATA: it has too many curves */
            metrics->counts.refused++;
        else if (status != WEFT_OK)
            return error_set(error, status, "%s", refusal.text);
    }
    return WEFT_OK;
}

/* Take the points of `metrics->line`, all of those that can be kept, and the number of their record. */
static weft_status run_metrics_take_line(struct run_metrics *metrics, const struct run_metrics_target *target,
                                         uint64_t sequence, struct error *error)
{
    struct metric_store *store = metrics->config.store;
    const struct metric_line *line = &metrics->line;
    weft_status status = ask_for_curves(metrics, target, error);
    if (status == WEFT_OK)
        status = metric_store_begin(store, error);
    if (status != WEFT_OK)
        return status;
    metrics->touched[(uint64_t)target->source->run % TOUCHED_MOST] = target->source->run;
    for (size_t i = 0; i < line->count; i++) {
        const struct metric_key key = {target->source->run, target->source->attempt, target->rank,
                                       line->values[i].name};
        const struct metric_point point = {line->step, target->time, line->values[i].value};
        if (!metrics->kept[i])
            continue;
        if (metric_store_append(store, &key, &point, 1, NULL) == WEFT_OK)
            metrics->counts.points++;
        else
            metrics->counts.refused++; /* no memory for it */
    }
    return metric_store_end(store, target->source, sequence, error);
}

static weft_status take_nothing(struct run_metrics *metrics, const struct metric_source *source, uint64_t sequence,
                                struct error *error)
{
    const weft_status status = metric_store_begin(metrics->config.store, error);
    return status == WEFT_OK ? metric_store_end(metrics->config.store, source, sequence, error) : status;
}

/* ---- records ---- */

static void run_metrics_put_value(struct metric_line *line, const char *name, double value)
{
    struct metric_value *place = &line->values[line->count++];
    snprintf(place->name, sizeof place->name, METRIC_SYSTEM "node/%s", name);
    place->value = value;
}

static void line_of_usage(struct metric_line *line, const struct journal_record *record)
{
    *line = (struct metric_line){.step = (int64_t)(record->time / 1000000u), .time = -1, .rank = -1};
    run_metrics_put_value(line, "processor_time", (double)record->usage.processor_time * 1e-6);
    if (record->usage.processes == 0) /* they have ended: so much time they took, and that is all */
        return;
    run_metrics_put_value(line, "memory/resident", (double)record->usage.memory);
    run_metrics_put_value(line, "processes", (double)record->usage.processes);
}

/* The metrics of a record, into metrics->line; false: it has none. */
static bool run_metrics_read_record(struct run_metrics *metrics, const struct journal_record *record)
{
    if (record->kind == JOURNAL_USAGE) {
        line_of_usage(&metrics->line, record);
        return true;
    }
    return record->kind == JOURNAL_METRICS && metric_line_read(record->text, record->size, &metrics->line);
}

static struct run_metrics_target target_of(const struct metric_line *line, const struct metric_source *source,
                                           const struct journal_record *record)
{
    struct run_metrics_target target = {.source = source, .rank = source->number, .time = line->time};
    target.measured =
        record->kind == JOURNAL_USAGE || (record->kind == JOURNAL_METRICS && record->output.stream == JOURNAL_MEASURED);
    if (line->time < 0)
        target.time = (int64_t)(record->time & INT64_MAX);
    if (target.measured)
        return target;
    if (line->rank >= 0)
        target.rank = line->rank;
    else if (record->output.rank != JOURNAL_NO_RANK)
        target.rank = record->output.rank;
    return target;
}

/* Errors: those of a store in trouble. */
static weft_status run_metrics_take_record(struct run_metrics *metrics, const struct metric_source *source,
                                           const struct journal_record *record, struct error *error)
{
    const struct run_metrics_config *config = &metrics->config;
    if (!run_metrics_read_record(metrics, record))
        return take_nothing(metrics, source, record->sequence, error);
    const struct run_metrics_target target = target_of(&metrics->line, source, record);
    weft_status status = run_metrics_take_line(metrics, &target, record->sequence, error);
    if (status == WEFT_OK && target.measured && config->measured)
        config->measured(config->context, source->run, source->attempt, (uint32_t)source->number, record->time,
                         &metrics->line);
    return status;
}

weft_status run_metrics_take(void *context, int64_t run, int64_t epoch, uint32_t node,
                             const struct journal_record *record, struct error *error)
{
    struct run_metrics *metrics = context;
    const struct metric_source source = {run, epoch, node};
    struct behind *behind = find_behind(metrics, &source);
    struct error trouble = {0};
    uint64_t taken = 0;
    metrics->counts.records++;
    if (behind) { /* its turn comes when those before it have been read again */
        if (record->sequence > behind->dealt)
            behind->dealt = record->sequence;
        return WEFT_OK;
    }
    weft_status status = metric_store_mark(metrics->config.store, &source, &taken, &trouble);
    if (status == WEFT_OK && record->sequence <= taken) {
        metrics->counts.again++;
        return WEFT_OK;
    }
    if (status == WEFT_OK)
        status = run_metrics_take_record(metrics, &source, record, &trouble);
    return status == WEFT_OK ? WEFT_OK : note_behind(metrics, &source, record->sequence, error);
}

/* ---- reading again ---- */

struct run_metrics_reading {
    struct run_metrics *metrics;
    struct metric_source source;
    uint32_t left; /* records that may be read yet */
    weft_status status;
    struct error *error;
};

static bool run_metrics_read_again(void *context, const struct journal_record *record)
{
    struct run_metrics_reading *reading = context;
    reading->status = run_metrics_take_record(reading->metrics, &reading->source, record, reading->error);
    return reading->status == WEFT_OK && --reading->left > 0;
}

/* Read what the store lacks of a node; `*done`: nothing any more. */
static weft_status catch_up(struct run_metrics *metrics, const struct behind *behind, uint32_t *left, bool *done,
                            struct error *error)
{
    struct engine *engine = metrics->config.engine;
    struct run_metrics_reading reading = {metrics, behind->source, *left, WEFT_OK, error};
    struct attempt attempt = {.epoch = (uint64_t)behind->source.attempt};
    struct error refusal = {0};
    uint64_t taken;
    snprintf(attempt.run, sizeof attempt.run, "%" PRId64, behind->source.run);
    *done = false;
    weft_status status = metric_store_mark(metrics->config.store, &behind->source, &taken, error);
    if (status != WEFT_OK)
        return status;
    status = engine->poll(engine, &attempt, (uint32_t)behind->source.number, taken, run_metrics_read_again, &reading,
                          &refusal);
    *left = reading.left;
    if (reading.status != WEFT_OK)
        return reading.status;
    if (status == WEFT_ERROR_STATE || status == WEFT_ERROR_DATA) { /* the journal is gone, or damaged from there on */
        metrics->counts.lost++;
        *done = true;
        status = metric_store_mark(metrics->config.store, &behind->source, &taken, error);
        return status == WEFT_OK && taken < behind->dealt ? take_nothing(metrics, &behind->source, behind->dealt, error)
                                                          : status;
    }
    if (status != WEFT_OK)
        return error_set(error, status, "%s", refusal.text);
    *done = reading.left > 0;
    return WEFT_OK;
}

weft_status run_metrics_tick(struct run_metrics *metrics, uint64_t now, uint32_t *behind, struct error *error)
{
    uint32_t left = AT_ONCE;
    weft_status status = metric_store_tick(metrics->config.store, now, error);
    for (int nodes = 0; status == WEFT_OK && metrics->count > 0 && left > 0 && nodes < NODES_MOST; nodes++) {
        bool done;
        struct behind *last = &metrics->behind[metrics->count - 1], tried = *last;
        status = catch_up(metrics, last, &left, &done, error);
        if (status == WEFT_OK && done) {
            metrics->count--;
        } else if (status != WEFT_OK) { /* the others first, the next time: it may be this one that cannot be read */
            *last = metrics->behind[0];
            metrics->behind[0] = tried;
        }
    }
    *behind = (uint32_t)metrics->count;
    return status;
}

/* ---- energy ---- */

struct sum {
    double joules;
    bool known;
};

static weft_status add_last(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                            struct error *error)
{
    struct sum *sum = state;
    if (isfinite(point->value)) {
        sum->joules += point->value;
        sum->known = true;
    }
    return WEFT_OK;
}

weft_status run_metrics_energy(struct metric_store *store, int64_t run, double *joules, bool *known,
                               struct error *error)
{
    struct sum sum = {0};
    struct error none = {0};
    weft_status status = metric_points_newest(store, run, METRIC_SYSTEM_ENERGY, add_last, &sum, &none);
    if (status != WEFT_OK && status != WEFT_ERROR_DATA) /* of DATA: it has no such metric */
        return error_set(error, status, "%s", none.text);
    *joules = sum.joules;
    *known = sum.known;
    return WEFT_OK;
}
