/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One line of `weft bench`: a collective at one size, checked and timed.
 *
 * How it is timed (bench/peers/mpi_collectives.c does the same, so that figures can be put side by side): one batch of
 * calls warms up and tells how many calls make about BENCH_BATCH_SECONDS; then BENCH_BATCHES batches, a barrier before
 * each, every rank timing its whole batch. A batch counts as the mean over ranks of its time per call, the figure is
 * the median of the batches. From BENCH_ALTERNATE_BYTES on, calls alternate between two sets of buffers, so that none
 * finds its own data in a cache.
 *
 * What is checked: a first call on fresh buffers, and what the last timed call left (unless in place), to the bit, on
 * every rank.
 */
#ifndef WEFT_CLI_BENCH_MEASURE_H
#define WEFT_CLI_BENCH_MEASURE_H

#include "base/error.h"

#include <stdbool.h>

#define BENCH_BATCH_SECONDS   0.01
#define BENCH_BATCHES         11
#define BENCH_CALLS_MOST      20000
#define BENCH_TRIALS          3 /**< of which the fastest counts, as a disturbed one would make all batches too short */
#define BENCH_TRIAL_CALLS     20
#define BENCH_ALTERNATE_BYTES ((size_t)16 << 20)

/** A collective as the bench knows it. */
struct bench_collective;

/** By name ("allreduce", "sendreceive"); NULL if there is none. The names, NULL at the end, are bench_collective_names.
 */
const struct bench_collective *bench_collective_find(const char *name);
extern const char *const bench_collective_names[];

/** Whether it combines numbers, so that type and operation matter; whether it has a root; whether it moves data at all.
 */
bool bench_collective_reduces(const struct bench_collective *collective);
bool bench_collective_has_root(const struct bench_collective *collective);
bool bench_collective_has_data(const struct bench_collective *collective);

/** The fewest bytes that can be measured, and the step in which sizes go: an element, or one for each rank. */
size_t bench_collective_granule(const struct bench_collective *collective, weft_type type, int ranks);

struct bench_case {
    const struct bench_collective *collective;
    weft_context *context;
    weft_comm *comm;
    weft_type type;
    weft_op op;
    int root;
    bool in_place, registered;
    size_t bytes; /**< as nccl-tests count them: the whole of the larger side; rounded down to whole elements a rank */
};

struct bench_result {
    size_t bytes, count;                       /**< as measured; elements that a call's count argument says */
    double seconds;                            /**< a call */
    double cpu_seconds;                        /**< processor time a call and rank, all threads */
    double algorithm_bandwidth, bus_bandwidth; /**< bytes a second, as nccl-tests define them */
    size_t calls;                              /**< timed, all batches together */
    size_t errors;                             /**< wrong elements, all ranks together */
};

/** Measure; collective over the communicator, the same result on every rank. */
weft_status bench_measure(const struct bench_case *what, struct bench_result *result, struct error *error);

#endif
