/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_timing.h"

#include <stdlib.h>

/* The fastest of a few trials of `calls` calls. */
static bool try_calls(const struct bench_timed *timed, size_t calls, double *fastest)
{
    for (int i = 0; i < BENCH_TRIALS; i++) {
        double seconds, cpu;
        if (!timed->run(timed->subject, calls, &seconds, &cpu))
            return false;
        if (i == 0 || seconds < *fastest)
            *fastest = seconds;
    }
    return true;
}

/* How many calls make a batch, and how many batches there will be. All ranks have the same times, and agree. */
static bool choose_calls(const struct bench_timed *timed, size_t *calls, size_t *batches)
{
    double seconds = 0;
    if (!try_calls(timed, timed->sets, &seconds))
        return false;
    if (seconds * BENCH_TRIAL_CALLS < BENCH_BATCH_SECONDS && !try_calls(timed, BENCH_TRIAL_CALLS, &seconds))
        return false;
    double wanted = seconds > 0 ? BENCH_BATCH_SECONDS / seconds : BENCH_CALLS_MOST;
    *calls = wanted > BENCH_CALLS_MOST ? BENCH_CALLS_MOST : (size_t)wanted;
    if (*calls < timed->sets)
        *calls = timed->sets;
    double affordable = seconds > 0 ? BENCH_SIZE_SECONDS / (seconds * (double)*calls) : BENCH_BATCHES;
    *batches = affordable >= BENCH_BATCHES         ? BENCH_BATCHES
               : affordable <= BENCH_BATCHES_LEAST ? BENCH_BATCHES_LEAST
                                                   : (size_t)affordable;
    return true;
}

static int bench_timing_by_value(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, bench_timing_by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

bool bench_time(const struct bench_timed *timed, struct bench_times *times)
{
    double seconds[BENCH_BATCHES], cpu[BENCH_BATCHES];
    size_t calls = 0, batches = 0;
    if (!choose_calls(timed, &calls, &batches))
        return false;
    for (size_t i = 0; i < batches; i++)
        if (!timed->run(timed->subject, calls, &seconds[i], &cpu[i]))
            return false;
    *times = (struct bench_times){
        .seconds = bench_median(seconds, batches), .cpu_seconds = bench_median(cpu, batches), .calls = calls * batches};
    return true;
}
