/* SPDX-License-Identifier: Apache-2.0 */
/**
 * `weft bench overlap` and `weft bench waiting`: whether a request progresses while its caller computes, and the processor
 * time of a waiting rank.
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
 * For each size: the time of a blocking all-reduce; then of one that is started before the computation (which does not
 * call Weft) and waited for after it, in total and of the wait alone. A repetition counts as its slowest rank; the figure
 * is the median of the repetitions. Collective.
 */
weft_status bench_overlap(const struct bench_progress *what, struct error *error);

/**
 * Rank 0 is late to a barrier, and late with a message, by 0.1 s and by 1.1 s: the processor time that the others use
 * meanwhile. Collective.
 */
weft_status bench_waiting(const struct bench_progress *what, struct error *error);

#endif
