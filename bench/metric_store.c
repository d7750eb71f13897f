/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many points of metrics a second the store takes, and how long curves of a million points take to draw. For
 * bench/metrics, which starts it in a directory of its own:
 *
 *     metric_store_bench DIRECTORY POINTS SERIES RATE     an object as JSON: RATE points a second (0: as fast as it goes)
 *     metric_store_bench DIRECTORY draw POINTS RANKS      an object for each kind of curve
 */
#include "base/clock.h"
#include "base/file/file.h"
#include "base/random.h"
#include "platform/metrics/query/draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#define NAMES       20
#define REPETITIONS 9

static void check(weft_status status, const struct error *error)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "metric_store_bench: %s\n", error->text);
    exit(1);
}

static struct metric_store *open_store(const char *directory)
{
    char path[FILE_PATH_BYTES];
    struct metric_store *store;
    struct error error = {0};
    check(file_join(path, directory, "metrics.db", &error), &error);
    check(metric_store_open(path, &(struct metric_options){0}, &store, &error), &error);
    return store;
}

static double size_of(const char *directory)
{
    char path[FILE_PATH_BYTES];
    struct stat file;
    return file_join(path, directory, "metrics.db", NULL) == WEFT_OK && stat(path, &file) == 0 ? (double)file.st_size
                                                                                               : 0;
}

/* What a loss looks like: a float that falls, with noise. */
static double value_of(uint64_t series, uint64_t step)
{
    return (double)(float)(10.0 / (1.0 + (double)step / 1000) + random_uniform(series, step));
}

static struct metric_key key_of(uint64_t series)
{
    static const char *const names[NAMES] = {
        "train/loss",   "train/rate",   "train/gradient_norm", "speed/tokens_per_second", "speed/step_seconds",
        "speed/wait",   "system/cpu",   "system/memory",       "system/network/sent",     "system/network/received",
        "gpu/0/use",    "gpu/0/memory", "gpu/0/power",         "gpu/0/temperature",       "gpu/1/use",
        "gpu/1/memory", "gpu/1/power",  "gpu/1/temperature",   "held-out/loss",           "held-out/accuracy"};
    return (struct metric_key){.run = 1 + (int64_t)(series / (NAMES * 8)),
                               .attempt = 1,
                               .rank = (int64_t)(series / NAMES % 8),
                               .name = names[series % NAMES]};
}

/* Wait until point `point` of so many a second is due. */
static void pace(uint64_t began, uint64_t point, double rate)
{
    const uint64_t due = began + (uint64_t)((double)point / rate * 1e9), now = clock_now();
    const struct timespec rest = {(time_t)((due - now) / 1000000000u), (long)((due - now) % 1000000000u)};
    if (due > now)
        nanosleep(&rest, NULL);
}

/* A point to each series in turn, as runs report them. */
static void append(const char *directory, uint64_t points, uint64_t series, double rate)
{
    struct metric_store *store = open_store(directory);
    struct error error = {0};
    double longest = 0;
    struct rusage usage;
    const uint64_t began = clock_now(), cpu = clock_process_cpu();
    for (uint64_t i = 0; i < points; i++) {
        const struct metric_key key = key_of(i % series);
        const struct metric_point point = {(int64_t)(i / series), (int64_t)(1700000000000000 + 20 * i),
                                           value_of(i % series, i / series)};
        if (rate > 0 && i % 500 == 0)
            pace(began, i, rate);
        const uint64_t before = clock_now();
        check(metric_store_append(store, &key, &point, 1, &error), &error);
        if (i % 100 == 0)
            check(metric_store_tick(store, before, &error), &error);
        const double took = (double)(clock_now() - before) / 1e9;
        longest = took > longest ? took : longest;
    }
    check(metric_store_flush(store, clock_now(), &error), &error);
    const double seconds = (double)(clock_now() - began) / 1e9, used = (double)(clock_process_cpu() - cpu) / 1e9;
    check(metric_store_close(store, &error), &error);
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"points\": %" PRIu64 ", \"series\": %" PRIu64 ", \"seconds\": %.3f, \"cpu_seconds\": %.3f, "
           "\"longest_call\": %.4f, \"bytes_a_point\": %.1f, \"memory_mib\": %.1f}\n",
           points, series, seconds, used, longest, size_of(directory) / (double)points, (double)usage.ru_maxrss / 1024);
}

static int by_size(const void *left, const void *right)
{
    const double one = *(const double *)left, other = *(const double *)right;
    return (one > other) - (one < other);
}

static void time_curve(struct metric_store *store, const char *what, const struct metric_query *query)
{
    double times[REPETITIONS];
    struct metric_curve curve = {0};
    struct error error = {0};
    for (int i = 0; i < REPETITIONS; i++) {
        const uint64_t began = clock_now();
        metric_curve_free(&curve);
        check(metric_draw(store, query, &curve, &error), &error);
        times[i] = (double)(clock_now() - began) / 1e9;
    }
    const double first = times[0];
    qsort(times, REPETITIONS, sizeof *times, by_size);
    printf("{\"curve\": \"%s\", \"points\": %" PRIu64 ", \"parts\": %zu, \"first_seconds\": %.5f, \"seconds\": %.5f}\n",
           what, curve.points, curve.count, first, times[REPETITIONS / 2]);
    metric_curve_free(&curve);
}

static void fill(const char *directory, uint64_t points, uint64_t ranks)
{
    struct metric_store *store = open_store(directory);
    struct error error = {0};
    for (uint64_t i = 0; i < points; i++)
        for (uint64_t rank = 0; rank < ranks; rank++) {
            const struct metric_point point = {(int64_t)i, (int64_t)(1700000000000000 + 1000 * i), value_of(rank, i)};
            check(metric_store_append(store, &(struct metric_key){1, 1, (int64_t)rank, "loss"}, &point, 1, &error),
                  &error);
        }
    check(metric_store_close(store, &error), &error);
}

static void draw(const char *directory, uint64_t points, uint64_t ranks)
{
    const int64_t middle = (int64_t)points / 2, begin = 1700000000000000;
    fill(directory, points, ranks);
    struct metric_store *store = open_store(directory);
    struct metric_query query = {
        .run = 1, .name = "loss", .rank = 0, .attempt = METRIC_ANY, .from = INT64_MIN, .to = INT64_MAX};
    time_curve(store, "all of it, by step", &query);
    query.axis = METRIC_TIMES;
    time_curve(store, "all of it, by time", &query);
    query.from = begin + 1000 * (middle - (int64_t)points / 8);
    query.to = begin + 1000 * (middle + (int64_t)points / 8);
    time_curve(store, "a quarter, by time", &query);
    query.axis = METRIC_STEPS;
    query.from = middle - (int64_t)points / 20;
    query.to = middle + (int64_t)points / 20;
    time_curve(store, "a tenth, by step", &query);
    query.from = middle;
    query.to = middle + 1999;
    time_curve(store, "2,000 steps, each point", &query);
    query.rank = METRIC_ANY;
    query.from = INT64_MIN;
    query.to = INT64_MAX;
    time_curve(store, "all ranks as one, by step", &query);
    check(metric_store_close(store, NULL), NULL);
}

int main(int count, char **words)
{
    if (count == 5 && strcmp(words[2], "draw") == 0)
        draw(words[1], strtoull(words[3], NULL, 10), strtoull(words[4], NULL, 10));
    else if (count == 5 && strtoull(words[2], NULL, 10) > 0 && strtoull(words[3], NULL, 10) > 0)
        append(words[1], strtoull(words[2], NULL, 10), strtoull(words[3], NULL, 10), strtod(words[4], NULL));
    else
        return fprintf(stderr,
                       "usage: metric_store_bench DIRECTORY POINTS SERIES RATE | DIRECTORY draw POINTS RANKS\n"),
               1;
    return 0;
}
