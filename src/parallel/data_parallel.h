/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Data parallelism: every rank holds all weights, computes its share of the global batch's micro-batches, and all get
 * the same sum of gradients, bit for bit what one rank alone would have got.
 *
 * The gradient array has DATA_PARALLEL_EXTRAS elements more than the model: numbers that are summed along with the
 * gradients for nothing (the loss, a wish to stop).
 *
 *     for (i = 0; i < layout.share; i++) {
 *         ... forward of micro-batch micro_batches_number(&layout, i) ...
 *         data_parallel_begin(dp, extras);
 *         model_backward(model, weights, dp->gradients, data_parallel_ready, dp, error);
 *         status = data_parallel_end(dp, error);
 *     }
 *     ... dp->gradients now holds the sum over the global batch ...
 */
#ifndef WEFT_PARALLEL_DATA_PARALLEL_H
#define WEFT_PARALLEL_DATA_PARALLEL_H

#include "parallel/gradient_buckets.h"
#include "parallel/micro_batches.h"
#include "parallel/partial_sums.h"

#define DATA_PARALLEL_EXTRAS 16

struct data_parallel {
    weft_context *context;
    weft_comm *comm; /**< a duplicate of the caller's, so that gradients have an order of their own */
    struct device *device;
    struct micro_batches layout;
    struct partial_sums sums;
    struct gradient_buckets buckets;
    size_t elements;  /**< of the model */
    float *gradients; /**< elements + DATA_PARALLEL_EXTRAS */
    uint32_t index;   /**< the local micro-batch under way */
};

/** Collective over `comm`. The device's type must be f32. */
weft_status data_parallel_open(struct data_parallel *parallel, weft_context *context, weft_comm *comm,
                               struct device *device, size_t elements, uint32_t micro_batches, size_t bucket_bytes,
                               struct error *error);
void data_parallel_close(struct data_parallel *parallel);

/** Before the backward pass of the next local micro-batch; `extras` are its DATA_PARALLEL_EXTRAS numbers. */
void data_parallel_begin(struct data_parallel *parallel, const float *extras);

/** A model_ready callback; `parallel` is the struct data_parallel. */
void data_parallel_ready(void *parallel, size_t first, size_t count);

/** After the backward pass. After the last local micro-batch the sum is complete on return. */
weft_status data_parallel_end(struct data_parallel *parallel, struct error *error);

#endif
