/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rule by which collectives are timed: the same for Weft (`weft bench`) and for its peers (bench/peers), which
 * compile this very file, so that figures can be put side by side. It knows of no library.
 *
 * A few trials warm up and tell how many calls make a batch of about BENCH_BATCH_SECONDS. Then come BENCH_BATCHES
 * batches, a barrier before each, every rank timing its whole batch; of long calls fewer, as soon as BENCH_SIZE_SECONDS
 * are over, but BENCH_BATCHES_LEAST. A batch counts as the mean over ranks of its time per call, the figure is the
 * median of the batches. From BENCH_ALTERNATE_BYTES on, calls alternate between BENCH_SETS sets of buffers, so that
 * none finds its own data in a cache; below, the same buffers are used again and again.
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

/** What is timed. */
struct bench_timed {
    /**
     * Pass a barrier, make `calls` calls, and tell the mean over ranks of a call's time and processor time: the same
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
