/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files of metrics that `weft train --metrics` has written (training/train/report/json.c), read again: an object a line.
 *
 * A run that was resumed or restarted in the same file repeats steps: the later lines count. The last line may be
 * truncated, as may one before a "start", if a process died while writing it. Any other malformed line is an error: the
 * file is untrusted input. Unknown events and keys are skipped.
 */
#ifndef WEFT_PLATFORM_METRICS_READ_METRICS_FILE_H
#define WEFT_PLATFORM_METRICS_READ_METRICS_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What is kept of each step; not a number where the file has none. */
enum metrics_figure {
    METRICS_LOSS,
    METRICS_RATE,
    METRICS_GRADIENT_NORM,
    METRICS_TOKENS_PER_SECOND,
    METRICS_UTILIZATION,
    METRICS_FIGURES,
};

/** Values after steps, these rising. */
struct metrics_values {
    double *steps;
    double *values;
    size_t count, room;
};

struct metrics {
    char run[128];   /**< what it is called; "" if the file does not say; printable, as `model` is */
    char model[128]; /**< "" if the file does not say */
    double parameters, batch, sequence, ranks; /**< 0 if the file does not say */
    struct metrics_values figures[METRICS_FIGURES];
    struct metrics_values held_out; /**< losses */
};

/** Read the file at `path`. Errors: SYSTEM, MEMORY; DATA with the number of the line, or if it has no step. */
weft_status metrics_read(const char *path, struct metrics *metrics, struct error *error);
void metrics_free(struct metrics *metrics);

#endif
