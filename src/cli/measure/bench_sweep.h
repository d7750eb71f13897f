/* SPDX-License-Identifier: Apache-2.0 */
/**
 * `weft bench --sweep`: every algorithm that the tuner may choose, at every size, and how far its choice is from the
 * best.
 *
 * The algorithms of a size take turns, `rounds` times; a figure is the median of its rounds. The choice has two turns per
 * round, to compare it with itself: the difference of its two series is the spread.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_SWEEP_H
#define WEFT_CLI_MEASURE_BENCH_SWEEP_H

#include "cli/measure/bench_measure.h"
#include "cli/measure/sweep_record.h"

#include <stdio.h>

#define BENCH_SWEEP_ROUNDS_MOST 25

struct bench_sweep {
    const struct bench_case *what;
    struct bench *bench;
    bool in_place, reproducible, json;
    uint32_t rounds;
    FILE *output;
    struct sweep_record figures;
    double *excess; /**< of each size: by how much the choice is slower than the best, a fraction of it */
    double *beyond; /**< the same, 0 where it is within the spread */
    size_t count, errors;
};

/** Set `what`, `bench`, `rounds` and the rest; bench_sweep_close() frees what is gathered. Prints the head. */
weft_status bench_sweep_open(struct bench_sweep *sweep, struct error *error);
void bench_sweep_close(struct bench_sweep *sweep);

/** Sweep one size; collective. Rank 0 prints a line (or a line of JSON for each algorithm). */
weft_status bench_sweep_size(struct bench_sweep *sweep, size_t bytes, struct error *error);

/** Rank 0 prints the summary and keeps the figures for `weft explain`. */
weft_status bench_sweep_end(struct bench_sweep *sweep, struct error *error);

#endif
