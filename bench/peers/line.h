/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs measured beside `weft bench` share: the sizes of its command line, its lines of JSON. */
#ifndef WEFT_BENCH_LINE_H
#define WEFT_BENCH_LINE_H

#include "cli/measure/bench_timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NAME COLLECTIVE MIN MAX FACTOR PLACE, sizes in bytes, PLACE in, out or both; false when they are not that. */
struct words {
    const char *name, *collective;
    size_t least, most, factor;
    int in_place, out_of_place;
};

static inline int read_words(int argc, char **argv, struct words *words)
{
    if (argc != 7)
        return 0;
    *words = (struct words){.name = argv[1],
                            .collective = argv[2],
                            .least = strtoull(argv[3], NULL, 10),
                            .most = strtoull(argv[4], NULL, 10),
                            .factor = strtoull(argv[5], NULL, 10),
                            .in_place = strcmp(argv[6], "out") != 0,
                            .out_of_place = strcmp(argv[6], "in") != 0};
    return words->least >= sizeof(float) && words->least <= words->most && words->factor >= 2;
}

/*
 * What a rank gives: whole numbers whose sum over the ranks is exact. Not zeros, which some processors move in
 * three quarters of the time.
 */
static inline float element(int of_rank, size_t index)
{
    return (float)((index * 7 + (size_t)of_rank * 13) % 61);
}

/* One measurement of floats; `share` is the bus bandwidth's factor. */
static inline void print_line(const struct words *words, int ranks, int in_place, size_t bytes, double share,
                              const struct bench_times *times, double errors)
{
    double bandwidth = times->seconds > 0 ? (double)bytes / times->seconds * 1e-9 : 0;
    printf(
        "{\"collective\":\"%s\",\"ranks\":%d,\"buffers\":\"ordinary\",\"in_place\":%s,\"bytes\":%zu,\"type\":\"f32\","
        "\"op\":\"sum\",\"algorithm\":\"%s\",\"time_us\":%.6g,\"algbw_gbps\":%.6g,\"busbw_gbps\":%.6g,\"cpu_us\":%.6g,"
        "\"calls\":%zu,\"errors\":%.0f}\n",
        words->collective, ranks, in_place ? "true" : "false", bytes, words->name, times->seconds * 1e6, bandwidth,
        bandwidth * share, times->cpu_seconds * 1e6, times->calls, errors);
    fflush(stdout);
}

#endif
