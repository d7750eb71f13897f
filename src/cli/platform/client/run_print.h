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

/** Write a number of slots, and of nodes if there are several: "8", "2 x 8". Returns `buffer`. */
char *run_size_text(int64_t nodes, int64_t slots, char *buffer, size_t size);

/** What a table of runs shows. */
struct run_table {
    bool owners;        /**< a column of owners */
    const cJSON *queue; /**< the array of GET /queue, for why runs wait; may be NULL */
    int64_t now;
};

/** Print `count` run objects as a table. Errors: MEMORY. */
weft_status run_print_table(const cJSON *const *runs, size_t count, const struct run_table *made, FILE *output,
                            struct error *error);

/** Print the reply of GET /runs/N in full: request, state and reason, attempts and their nodes. Errors: MEMORY. */
weft_status run_print_whole(const cJSON *run, const char *why, int64_t now, FILE *output, struct error *error);

/** Begins the clause with the expected start in the reason of a waiting run. */
#define RUN_REASON_EXPECTED "; expected to start"

/** Cut that clause from a reason, in place, if the expected start is shown elsewhere. Returns `reason`. */
char *run_reason_alone(char *reason);

#endif
