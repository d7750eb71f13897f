/* SPDX-License-Identifier: Apache-2.0 */
/** The collectives that `weft bench` measures: how each is called and checked, and which bytes count. */
#ifndef WEFT_CLI_MEASURE_BENCH_COLLECTIVES_H
#define WEFT_CLI_MEASURE_BENCH_COLLECTIVES_H

#include "cli/measure/bench_values.h"

#include <stdbool.h>

/** How many elements a side has, in blocks. */
enum bench_extent { BENCH_NOTHING, BENCH_ONE_BLOCK, BENCH_BLOCK_A_RANK };

/** Where a result may go. */
enum bench_places { BENCH_EITHER_PLACE, BENCH_IN_PLACE_ONLY, BENCH_OUT_OF_PLACE_ONLY };

/** One rank's side of a call. */
struct bench_call {
    weft_context *context;
    weft_comm *comm;
    struct bench_values values;
    int rank, ranks, root;
    size_t size;  /**< bytes of an element */
    size_t block; /**< the count argument of the call */
    char *input, *output;
};

struct bench_collective {
    const char *name;
    enum bench_extent input, output;
    bool reduces, has_root;
    enum bench_places places;
    double (*bus_factor)(int ranks); /**< of the bus bandwidth, as nccl-tests define it */
    weft_status (*run)(const struct bench_call *call);
    size_t (*check)(const struct bench_call *call); /**< wrong elements of this rank's output */
};

/** By name ("allreduce", "sendreceive"); NULL if there is none. The names, NULL at the end, are bench_collective_names.
 */
const struct bench_collective *bench_collective_find(const char *name);
extern const char *const bench_collective_names[];

/** Whether it moves data at all. */
bool bench_collective_has_data(const struct bench_collective *collective);

/** Into how many blocks the bytes of a size are divided. */
size_t bench_collective_blocks(const struct bench_collective *collective, int ranks);

/** The fewest bytes that can be measured, and the step in which sizes go: an element, or one for each rank. */
size_t bench_collective_granule(const struct bench_collective *collective, weft_type type, int ranks);

#endif
