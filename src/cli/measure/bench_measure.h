/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A collective measured at one size after another, on buffers that are allocated once, for the largest of them.
 *
 * Timed as bench_timing.h says. What is checked: a first call on fresh numbers, and what the last timed call left
 * (unless in place), to the bit, on every rank.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_MEASURE_H
#define WEFT_CLI_MEASURE_BENCH_MEASURE_H

#include "base/error.h"
#include "cli/measure/bench_collectives.h"
#include "cli/measure/bench_network.h"

struct bench_case {
    const struct bench_collective *collective;
    weft_context *context;
    weft_comm *comm;
    weft_type type;
    weft_op op;
    int root;
    bool registered;
    bool in_place, out_of_place; /**< which will be measured, perhaps both */
    size_t most_bytes;           /**< the largest size that will be measured */
};

struct bench_result {
    size_t bytes, count;                       /**< as measured; elements that a call's count argument says */
    double seconds;                            /**< a call */
    double cpu_seconds;                        /**< processor time a call and rank, all threads */
    double algorithm_bandwidth, bus_bandwidth; /**< bytes a second, as nccl-tests define them */
    size_t calls;                              /**< timed, all batches together */
    size_t errors;                             /**< wrong elements, all ranks together */
    struct bench_network network;              /**< bytes between nodes, counted over calls that are not timed */
};

/** A case with its buffers. */
struct bench;

/** Allocate; `what` must live as long. bench_close() frees. */
weft_status bench_open(const struct bench_case *what, struct bench **bench, struct error *error);
void bench_close(struct bench *bench);

/**
 * Measure at `bytes` bytes (as nccl-tests count them: the whole of the larger side; rounded down to whole elements a
 * rank), at most those that the case names. Collective over the communicator, the same result on every rank.
 */
weft_status bench_measure(struct bench *bench, size_t bytes, bool in_place, struct bench_result *result,
                          struct error *error);

#endif
