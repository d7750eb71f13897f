/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The numbers that `weft bench` reduces, chosen so that every result is exact in every type and can be checked to the
 * bit.
 *
 * Element i of rank r is a pseudo-random whole number, small enough that the sum over all ranks is a whole number that
 * the type holds (for bf16, which counts exactly to 256 only, up to 256 ranks). Products are of ones and a rare two.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_VALUES_H
#define WEFT_CLI_MEASURE_BENCH_VALUES_H

#include "weft/weft.h"

/** The operation on the numbers. */
struct bench_values {
    weft_type type;
    weft_op op; /**< of a collective that only moves data: as WEFT_MAX */
    int ranks;
};

/** Write elements [first, first + count) of `rank` to `buffer`. */
void bench_fill(const struct bench_values *values, int rank, size_t first, void *buffer, size_t count);

/** How many of the `count` elements at `buffer` differ from elements [first, first + count) of `rank`. */
size_t bench_check_moved(const struct bench_values *values, int rank, size_t first, const void *buffer, size_t count);

/** How many of the `count` elements at `buffer` differ from the result over ranks 0 to `ranks` - 1. */
size_t bench_check_reduced(const struct bench_values *values, int ranks, size_t first, const void *buffer,
                           size_t count);

#endif
