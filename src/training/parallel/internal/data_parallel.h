/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Data parallelism: every rank holds all weights, computes its share of the global batch's micro-batches, and all get
 * the same sum of gradients, bit for bit what one rank alone would have got.
 *
 * Before the gradients lie DATA_PARALLEL_EXTRAS elements more: numbers that are summed along with them for nothing (the
 * loss, a wish to stop). As they come first, they go with the last bucket, and may be set until a pass ends.
 *
 *     for (i = 0; i < layout.share; i++) {
 *         ... forward of micro-batch micro_batches_number(&layout, i) ...
 *         data_parallel_begin(dp);
 *         ... backward into dp->gradients; for each tensor: data_parallel_ready(dp, tensor) ...
 *         status = data_parallel_end(dp, extras, error);
 *     }
 *     ... dp->gradients, and dp->extras, now hold the sum over the global batch ...
 *
 * Gradients may be rounded to bf16 at every leaf and every sum of the tree (on one rank, too): then half the bytes
 * move, and the bits still do not depend on the number of ranks. The extras stay f32.
 */
#ifndef WEFT_TRAINING_PARALLEL_INTERNAL_DATA_PARALLEL_H
#define WEFT_TRAINING_PARALLEL_INTERNAL_DATA_PARALLEL_H

#include "training/parallel/internal/gradient_buckets.h"
#include "training/parallel/internal/partial_sums.h"
#include "training/parallel/micro_batches.h"

#define DATA_PARALLEL_EXTRAS 16

struct data_parallel {
    weft_context *context;
    weft_comm *comm; /**< a duplicate of the caller's, so that gradients have an order of their own */
    struct device *device;
    struct micro_batches layout;
    struct partial_sums sums;
    struct gradient_buckets buckets;
    struct gradient_range *ranges;        /**< in `extras`: the extras, then the tensors */
    const struct gradient_range *tensors; /**< in `gradients` */
    float *extras;                        /**< DATA_PARALLEL_EXTRAS, and behind them: */
    float *gradients;
    uint16_t *rounded; /**< the gradients in bf16, which is what moves; NULL: f32 */
    uint32_t index;    /**< the local micro-batch under way */
};

/**
 * Collective over `comm`. `tensors` ranges cover the gradients in rising order without gaps. `device` is of f32, with
 * activations of bf16 where gradients are to be `rounded`.
 */
weft_status data_parallel_open(struct data_parallel *parallel, weft_context *context, weft_comm *comm,
                               struct device *device, const struct gradient_range *tensors, uint32_t count,
                               uint32_t micro_batches, bool rounded, size_t bucket_bytes, struct error *error);
void data_parallel_close(struct data_parallel *parallel);

/** Before the first gradient of the next local micro-batch is ready. */
void data_parallel_begin(struct data_parallel *parallel);

/** The gradient of a tensor is ready; once in a micro-batch. */
void data_parallel_ready(struct data_parallel *parallel, uint32_t tensor);

/** All gradients are ready; `extras` are the micro-batch's DATA_PARALLEL_EXTRAS numbers. After the last local
 * micro-batch the sum is complete on return. */
weft_status data_parallel_end(struct data_parallel *parallel, const float *extras, struct error *error);

#endif
