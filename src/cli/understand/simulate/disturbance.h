/* SPDX-License-Identifier: Apache-2.0 */
/** What goes wrong in a simulation, as the commands of `weft sim` take it: slow ranks and links, other traffic, jitter. */
#ifndef WEFT_CLI_UNDERSTAND_DISTURBANCE_H
#define WEFT_CLI_UNDERSTAND_DISTURBANCE_H

#include "base/format/json.h"
#include "core/schedule/simulate/simulate.h"

/** What the options say; the table's entries are DISTURBANCE_OPTIONS. */
struct disturbance_options {
    const char *slow_rank, *slow_link, *reads, *writes;
    double jitter;
    int64_t seed;
};

#define DISTURBANCE_OPTIONS(chosen)                                                                                    \
    CLI_TEXT("slow-rank", 0, "RANK=TIMES", &(chosen).slow_rank, NULL,                                                  \
             "all work of a rank takes that many times as long: 5=1.3"),                                               \
        CLI_TEXT("slow-link", 0, "UNIT=SHARE", &(chosen).slow_link, NULL,                                              \
                 "the links of a unit keep this share of their bandwidth, both ways: node:3=0.5, leaf:0=0.1"),         \
        CLI_TEXT("storage-reads", 0, "RATE", &(chosen).reads, NULL,                                                    \
                 "every node also reads that much from storage outside, over its interfaces: '2 GB/s'"),               \
        CLI_TEXT("storage-writes", 0, "RATE", &(chosen).writes, NULL,                                                  \
                 "every node also writes that much to storage outside"),                                               \
        CLI_NUMBER("jitter", 0, "SHARE", &(chosen).jitter, "0", 0, 1000,                                               \
                   "work takes longer by an exponentially distributed share with this mean", .default_text = "none"),  \
        CLI_INTEGER("seed", 0, "N", &(chosen).seed, "1", 0, JSON_EXACT, "seed of the jitter")

/**
 * Read the options; *disturbed: whether anything is. That ranks and units exist is for the simulation to check.
 * Errors: ARGUMENT, with the option, its value and its form.
 */
weft_status disturbance_parse(const struct disturbance_options *options, struct simulated_disturbance *disturbance,
                              bool *disturbed, struct error *error);

#endif
