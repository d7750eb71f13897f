/* SPDX-License-Identifier: Apache-2.0 */
/** The output of `weft bench`: nccl-tests' columns, or a line of JSON per measurement. */
#ifndef WEFT_CLI_MEASURE_BENCH_PRINT_H
#define WEFT_CLI_MEASURE_BENCH_PRINT_H

#include "cli/measure/bench_measure.h"

#include <stdio.h>

/** One size, in both places. */
struct bench_row {
    const char *type, *op, *algorithm;
    struct bench_result results[2]; /**< out of place, in place */
    bool measured[2];               /**< which of them were */
};

void bench_print_head(FILE *output, const struct bench_case *what);
void bench_print_row(FILE *output, const struct bench_case *what, const struct bench_row *row);
weft_status bench_print_json(FILE *output, const struct bench_case *what, const struct bench_row *row,
                             struct error *error);

#endif
