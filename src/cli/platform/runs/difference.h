/* SPDX-License-Identifier: Apache-2.0 */
/** Differences between two runs in specification, arguments, environment, code and result. Thread-safe. */
#ifndef WEFT_CLI_PLATFORM_RUNS_DIFFERENCE_H
#define WEFT_CLI_PLATFORM_RUNS_DIFFERENCE_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** A run as the server describes it. */
struct run_compared {
    const cJSON *run;     /**< GET /runs/N, with its specification */
    const cJSON *entries; /**< the array of its snapshot's entries; NULL: not known */
    const cJSON *metrics; /**< the array of GET /runs/N/metrics; NULL: not known */
};

/** One difference. */
struct run_difference {
    const char *section; /**< "specification", "arguments", "environment", "code", "result" */
    char *what;          /**< the key, option, variable, file ...; "" for a word of the arguments */
    char *left, *right;  /**< NULL: missing on this side */
};

struct run_differences {
    struct run_difference *list;
    size_t count, room;
    bool failed; /**< memory ran out */
};

/** Find the differences, section by section. Errors: MEMORY. */
weft_status run_differences_find(const struct run_compared *left, const struct run_compared *right,
                                 struct run_differences *differences, struct error *error);
void run_differences_free(struct run_differences *differences);

/** Print them as a diff: "-" before lines of the left run, "+" before lines of the right one. */
void run_differences_print(const struct run_differences *differences, FILE *output);

#endif
