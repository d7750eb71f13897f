/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_metrics_bench DIRECTORY VALUES LINES: lines of metrics, so many values each, into a journal and from there into the
 * store; then what a sample of an agent costs. Prints lines of JSON.
 */
#include "platform/metrics/run_metrics.h"
#include "base/clock.h"
#include "base/format/json.h"
#include "platform/agent/internal/sampler.h"
#include "platform/agent/journal/file.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES 200

static struct error error;

static void check(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "run_metrics_bench: %s\n", error.text);
    exit(1);
}

static double seconds_since(uint64_t moment)
{
    return (double)(clock_now() - moment) * 1e-9;
}

static double write_journal(const char *directory, int values, int64_t lines)
{
    struct journal_writer writer;
    char *text = malloc(METRIC_LINE_MOST);
    check(journal_writer_open(&writer, directory, &(struct journal_limits){0}, &error));
    const uint64_t began = clock_now();
    for (int64_t i = 0; i < lines && text; i++) {
        int length = sprintf(text, "{\"step\":%lld", (long long)i);
        for (int value = 0; value < values; value++)
            length += sprintf(text + length, ",\"train/value-%d\":%.6g", value, 1.0 / (double)(i + value + 1));
        text[length++] = '}';
        struct journal_record record = {
            .kind = JOURNAL_METRICS, .output = {1, (uint32_t)(i % 8)}, .text = text, .size = (uint32_t)length};
        check(journal_append(&writer, &record, &error));
    }
    const double seconds = seconds_since(began);
    journal_writer_close(&writer);
    free(text);
    return seconds;
}

static void read_journal(const char *directory, struct run_metrics *metrics)
{
    struct journal_reader reader;
    struct journal_record record;
    bool found = true;
    uint32_t behind;
    check(journal_reader_open(&reader, directory, 0, &error));
    for (int64_t i = 1; found; i++) {
        check(journal_reader_next(&reader, &record, &found, &error));
        if (found)
            check(run_metrics_take(metrics, 1, 1, 0, &record, &error));
        if (i % 1000 == 0)
            check(run_metrics_tick(metrics, clock_now(), &behind, &error));
    }
    journal_reader_close(&reader);
}

static void collect(const char *directory, int values, int64_t lines)
{
    char journal[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    struct metric_store *store;
    struct database *registry;
    struct run_metrics *metrics;
    check(file_join(journal, directory, "journal", &error));
    check(file_join(path, directory, "metrics.db", &error));
    const double written = write_journal(journal, values, lines);
    check(metric_store_open(path, &(struct metric_options){0}, &store, &error));
    check(registry_open(directory, DATABASE_WRITER, &registry, &error));
    check(run_metrics_open(&(struct run_metrics_config){.store = store, .registry = registry}, &metrics, &error));
    const uint64_t began = clock_now(), used = clock_process_cpu();
    read_journal(journal, metrics);
    check(metric_store_flush(store, clock_now(), &error));
    printf("{\"values\":%d,\"points\":%lld,\"lines_written_per_second\":%.0f,\"seconds\":%.6f,\"cpu_seconds\":%.6f}\n",
           values, (long long)run_metrics_counts(metrics).points, (double)lines / written, seconds_since(began),
           (double)(clock_process_cpu() - used) * 1e-9);
    run_metrics_close(metrics);
    check(metric_store_close(store, &error));
    database_close(registry);
}

static void count_sample(void *context, struct journal_record *record)
{
    *(unsigned *)context += record->kind == JOURNAL_USAGE;
}

static void sample(char *directory)
{
    const struct node_order order = {.slots = (char *)"0", .directory = directory};
    struct node_sampler *sampler;
    unsigned samples = 0;
    const uint64_t used = clock_process_cpu();
    check(node_sampler_start(
        &(struct node_sampler_config){.order = &order, .cgroup = "", .ancestor = getpid(), .seconds = 0.01}, &sampler,
        &error));
    while (samples < SAMPLES) {
        struct pollfd polled = {node_sampler_descriptor(sampler), POLLIN, 0};
        poll(&polled, 1, 1000);
        node_sampler_take(sampler, count_sample, &samples);
    }
    printf("{\"samples\":%u,\"cpu_seconds\":%.6f}\n", samples, (double)(clock_process_cpu() - used) * 1e-9);
    node_sampler_stop(sampler, 5, count_sample, &samples);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "run_metrics_bench DIRECTORY VALUES LINES\n"), 2;
    collect(argv[1], atoi(argv[2]), atoll(argv[3]));
    sample(argv[1]);
    return 0;
}
