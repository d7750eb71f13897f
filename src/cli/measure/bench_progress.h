/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What `weft bench` shows of waiting and not waiting: whether a request moves while its caller computes, and what a
 * rank that waits costs.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_PROGRESS_H
#define WEFT_CLI_MEASURE_BENCH_PROGRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

struct bench_progress {
    FILE *output; /**< rank 0 prints there */
    weft_context *context;
    size_t least, most, factor; /**< bytes of the all-reduces */
    double compute_seconds;
    bool registered; /**< buffers from weft_alloc() */
    bool json;
};

/**
 * For each size: an all-reduce that blocks; and one that is started before so much computing (which calls nothing of
 * Weft) and waited for after it: the time of all three, and of the waiting alone. A repetition counts as its slowest
 * rank, the figure is the median of the repetitions. Collective.
 */
weft_status bench_overlap(const struct bench_progress *what, struct error *error);

/**
 * Rank 0 comes late to a barrier, and late with a message, by 0.1 s and by 1.1 s: the processor time that the others
 * use in the second between. Collective.
 */
weft_status bench_waiting(const struct bench_progress *what, struct error *error);

#endif
