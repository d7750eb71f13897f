/* SPDX-License-Identifier: Apache-2.0 */
/** Runs of the platform on the terminal: as rows of a table, and one in full. */
#ifndef WEFT_CLI_PLATFORM_CLIENT_RUN_PRINT_H
#define WEFT_CLI_PLATFORM_CLIENT_RUN_PRINT_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** "8", "2 x 8": slots, and on how many nodes. */
char *run_size_text(int64_t nodes, int64_t slots, char *buffer, size_t size);

/** How a table of runs is made. */
struct run_table {
    bool owners;        /**< with whose they are */
    const cJSON *queue; /**< the array of GET /queue, for why runs wait; NULL: not known */
    int64_t now;
};

/** `count` run objects as a table. Errors: MEMORY. */
weft_status run_print_table(const cJSON *const *runs, size_t count, const struct run_table *made, FILE *output,
                            struct error *error);

/** The reply of GET /runs/N in full: what was asked for, where it stands and why, its attempts and their nodes. Errors:
 * MEMORY. */
weft_status run_print_whole(const cJSON *run, const char *why, int64_t now, FILE *output, struct error *error);

/** What the clause begins with, in why a run waits, that tells when it is expected to start. */
#define RUN_REASON_EXPECTED "; expected to start"

/** Cut from why a run waits when it is expected to start, for where that is told beside it. In place; returns
 * `reason`. */
char *run_reason_alone(char *reason);

#endif
