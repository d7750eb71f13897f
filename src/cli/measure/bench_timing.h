/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How collectives are timed, for Weft (`weft bench`) and for other libraries (bench/peers), which compile the same file,
 * so that figures can be compared. It depends on no library.
 *
 * A few trials warm up and show how many calls make a batch of about BENCH_BATCH_SECONDS. Then BENCH_BATCHES batches
 * follow, each after a barrier, and every rank times its whole batch. Long calls get fewer batches, to take about
 * BENCH_SIZE_SECONDS, but at least BENCH_BATCHES_LEAST. A batch counts as the mean over ranks of its time per call; the
 * figure is the median of the batches. From BENCH_ALTERNATE_BYTES on, calls alternate between BENCH_SETS sets of
 * buffers, so that no call finds its data in a cache; smaller calls reuse the same buffers.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_TIMING_H
#define WEFT_CLI_MEASURE_BENCH_TIMING_H

#include <stdbool.h>
#include <stddef.h>

#define BENCH_BATCH_SECONDS   0.01
#define BENCH_BATCHES         11
#define BENCH_BATCHES_LEAST   3
#define BENCH_SIZE_SECONDS    0.25
#define BENCH_CALLS_MOST      20000
#define BENCH_TRIALS          3 /**< of which the fastest counts, as a disturbed one would make all batches too short */
#define BENCH_TRIAL_CALLS     20
#define BENCH_ALTERNATE_BYTES ((size_t)16 << 20)
#define BENCH_SETS            2

/** The subject of a timing. */
struct bench_timed {
    /**
     * Pass a barrier, make `calls` calls, and return the mean over ranks of a call's time and processor time: the same
     * numbers on every rank. False ends the timing.
     */
    bool (*run)(void *subject, size_t calls, double *seconds, double *cpu_seconds);
    void *subject;
    size_t sets; /**< of buffers: each is used in every batch */
};

struct bench_times {
    double seconds, cpu_seconds; /**< of a call: medians of the batches */
    size_t calls;                /**< in all batches together */
};

/** Time it; false when a run failed. Every rank calls this alike. */
bool bench_time(const struct bench_timed *timed, struct bench_times *times);

/** The median of `count` values, which are sorted by this. */
double bench_median(double *values, size_t count);

#endif
