/* SPDX-License-Identifier: Apache-2.0 */
/** Measured training iterations of other people's clusters: the CSV files beside this, a row each. */
#ifndef BENCH_PUBLISHED_ROWS_H
#define BENCH_PUBLISHED_ROWS_H

#include "training/model/model.h"
#include "training/simulate/implementation.h"

enum row_role { ROW_FIT, ROW_CHECK, ROW_MEMORY };

/** A model on a mesh, and what was measured. */
struct row {
    const char *source;  /**< "vtrain" */
    char model[32];      /**< "18.4B" */
    const char *cluster; /**< its kind: "dgx-a100" */
    struct model_shape shape;
    uint32_t ranks, data, pipeline, tensor, zero;
    uint32_t global_batch;   /**< sequences */
    uint32_t micro_batch;    /**< 0: not published; the authors chose the best */
    uint32_t virtual_stages; /**< of each pipeline rank; 1: 1F1B; 0: interleaved, the number is not published */
    enum model_recompute recompute;
    bool divides_rows;
    const struct implementation *implementation;
    double seconds;      /**< of an iteration; 0: not published */
    double memory_bytes; /**< peak of a device; INFINITY: it did not fit; 0: not published */
    enum row_role role;
};

/** Read all files of `directory`; the caller frees *rows. Errors: SYSTEM, DATA with the file and line. */
weft_status rows_read(const char *directory, struct row **rows, size_t *count, struct error *error);

#endif
