/* SPDX-License-Identifier: Apache-2.0 */
/** What differs between two runs: of their specification, arguments, environment, code and result. Thread-safe. */
#ifndef WEFT_CLI_PLATFORM_RUNS_DIFFERENCE_H
#define WEFT_CLI_PLATFORM_RUNS_DIFFERENCE_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** What is known of a run. */
struct run_compared {
    const cJSON *run;     /**< GET /runs/N, with its specification */
    const cJSON *entries; /**< the array of its snapshot's entries; NULL: not known */
    const cJSON *metrics; /**< the array of GET /runs/N/metrics; NULL: not known */
};

/** One difference. */
struct run_difference {
    const char *section; /**< "specification", "arguments", "environment", "code", "result" */
    char *what;          /**< the key, option, variable, file ...; "" for a word of the arguments */
    char *left, *right;  /**< NULL: it is not there */
};

struct run_differences {
    struct run_difference *list;
    size_t count, room;
    bool failed; /**< memory ran out */
};

/** Find what differs, section by section. Errors: MEMORY. */
weft_status run_differences_find(const struct run_compared *left, const struct run_compared *right,
                                 struct run_differences *differences, struct error *error);
void run_differences_free(struct run_differences *differences);

/** Print them as a diff: what is on the left alone with "-", on the right alone with "+". */
void run_differences_print(const struct run_differences *differences, FILE *output);

#endif
