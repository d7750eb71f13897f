/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the user sees of a run: a line now and then, and the same as JSON lines for programs.
 *
 * Figures are over the steps since the last line. Only rank 0 opens one.
 */
#ifndef WEFT_TRAIN_REPORT_H
#define WEFT_TRAIN_REPORT_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** What one step did. */
struct report_step {
    uint64_t step; /**< steps done, this one included */
    double loss;   /**< mean over the global batch, natural logarithm */
    double rate;
    double gradient_norm; /**< before clipping */
    double seconds;       /**< of wall time */
    double wait_seconds;  /**< of these, waiting for communication */
    double data_seconds;  /**< of these, reading the data */
};

struct report {
    FILE *out;         /**< lines for people; NULL: none */
    FILE *metrics;     /**< JSON lines; NULL: none */
    uint64_t steps;    /**< of the whole run */
    uint64_t every;    /**< steps between lines */
    double tokens;     /**< of a step */
    double flops;      /**< floating-point operations of a step, all ranks together */
    uint64_t gathered; /**< steps since the last line */
    double seconds, wait_seconds;
};

/** `metrics` may be NULL; the file is appended to. */
weft_status report_open(struct report *report, FILE *out, const char *metrics, struct error *error);
weft_status report_close(struct report *report, struct error *error);

/** A checkpoint that was written beside training, or was not. */
struct report_checkpoint {
    uint64_t step;
    char path[FILE_PATH_BYTES];
    uint64_t bytes;       /**< of all tensors */
    unsigned files;       /**< they are in */
    double seconds;       /**< from its beginning until it was whole */
    double pause_seconds; /**< of these, training stood still on rank 0 */
    const char *problem;  /**< why there is none; NULL: it is whole */
};

void report_checkpoint(struct report *report, const struct report_checkpoint *checkpoint);

/** Take note of a step; prints when a line is due. */
void report_step(struct report *report, const struct report_step *step);

/** An evaluation on held-out data; with bytes of text a token (0: not known) it is told in bits a byte too. */
void report_evaluation(struct report *report, uint64_t step, double loss, double bytes_per_token);

#endif
