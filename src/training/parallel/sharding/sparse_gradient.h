/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The sparse gradient of an embedding table: rows of the tokens that occur, summed over the micro-batches of a global
 * batch and over the data axis, bit for bit as a table of its own for each micro-batch would be.
 *
 * Every rank keeps the rows of its micro-batches; after the last one, all ranks gather those of all. Each adds up the
 * rows that it needs, by the canonical tree (canonical_runs.h): a micro-batch without a token counts as 0 there.
 *
 * Not thread-safe. Rows are in host memory that the device reaches.
 */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_SPARSE_GRADIENT_H
#define WEFT_TRAINING_PARALLEL_SHARDING_SPARSE_GRADIENT_H

#include "base/error.h"
#include "training/parallel/sharding/canonical_runs.h"
#include "training/parallel/sharding/slices.h"

struct sparse_gradient_config {
    weft_context *context;
    weft_comm *comm;        /**< of the data axis */
    struct device *device;  /**< of f32, with activations of bf16 */
    size_t width;           /**< elements of a row */
    size_t rows;            /**< of a micro-batch, at most */
    uint32_t micro_batches; /**< of a global batch, over all ranks */
    const uint32_t *shares; /**< as struct gradient_groups_config's */
    uint32_t zero;          /**< decides which of them a rank has: canonical_runs.h */
    weft_type type;         /**< WEFT_F32; WEFT_BF16: rounded at every leaf and sum of the tree */
    double *waited;         /**< where the time of waiting for other ranks is added; NULL: nowhere */
};

struct sparse_gradient;

/** Collective. Errors: MEMORY, and those of weft_comm_duplicate(). */
weft_status sparse_gradient_open(const struct sparse_gradient_config *config, struct sparse_gradient **gradient,
                                 struct error *error);
void sparse_gradient_close(struct sparse_gradient *gradient);

/** Bytes that each rank allocates for rows; context, communicator and device are not used. */
size_t sparse_gradient_memory(const struct sparse_gradient_config *config);

/** Where the rows of this rank's micro-batch `number`, from 0, are written. */
float *sparse_gradient_place(struct sparse_gradient *gradient, uint32_t number);

/** They have been written: `count` rows, of `tokens` in ascending order. */
void sparse_gradient_put(struct sparse_gradient *gradient, uint32_t number, const int32_t *tokens, size_t count);

/** Gather the rows of all ranks. Errors: those of weft_allgatherv(). */
weft_status sparse_gradient_gather_start(struct sparse_gradient *gradient, struct error *error);
weft_status sparse_gradient_gather_finish(struct sparse_gradient *gradient, struct error *error);

/** Give the gathered rows to another rank, or take them from it; wait for *request. Errors: those of weft_send(). */
weft_status sparse_gradient_send_start(struct sparse_gradient *gradient, int peer, weft_comm *comm,
                                       weft_request **request, struct error *error);
weft_status sparse_gradient_receive_start(struct sparse_gradient *gradient, int peer, weft_comm *comm,
                                          weft_request **request, struct error *error);

/** Add the sums of the rows to `total`, elements `slice` of the table. Once: the rows are used up. */
void sparse_gradient_add_to(struct sparse_gradient *gradient, struct group_slice slice, float *total);

#endif
