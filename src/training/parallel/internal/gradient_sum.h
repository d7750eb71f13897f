/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The sum of gradients over the micro-batches of a global batch and over the ranks, bit for bit as on one rank.
 *
 *     for (i = 0; i < sum->layout.share; i++) {
 *         ... forward of micro-batch micro_batches_number(&sum->layout, i) ...
 *         gradient_sum_begin(sum);
 *         ... backward into sum->gradients; for each parameter: gradient_sum_ready(sum, parameter) ...
 *         status = gradient_sum_end(sum, metrics, error);
 *     }
 *     ... sum->gradients and sum->metrics now hold the sum over the global batch ...
 *
 * A parameter is named by its index in the description. GRADIENT_METRICS more elements lie in front of the gradients:
 * numbers that are summed with them at no cost (the loss, a request to stop). They travel with the last bucket, so they
 * may be set until a backward pass ends.
 *
 * Gradients may be rounded to bf16 at every leaf and every sum of the canonical tree, on one rank too. Then half the
 * bytes move, and the bits still do not depend on the number of ranks. The metrics stay f32.
 */
#ifndef WEFT_TRAINING_PARALLEL_INTERNAL_GRADIENT_SUM_H
#define WEFT_TRAINING_PARALLEL_INTERNAL_GRADIENT_SUM_H

#include "training/model/model.h"
#include "training/parallel/internal/gradient_buckets.h"
#include "training/parallel/partition.h"

/* ---- the micro-batches of one rank ---- */

#define GRADIENT_LEVELS 32

/** Rounds elements [first, first + count) of an array in place. */
typedef void (*gradient_round)(void *context, float *array, size_t first, size_t count);

/**
 * Gradient accumulation: sums arrays that arrive one by one, in the canonical tree over their order of arrival.
 *
 * It works like a binary counter. Level l, when it is filled, holds the sum of an aligned run of 2^l arrays. A new array
 * is added to the filled levels from 0 up to the first empty one, which stores the result. The last array is added to
 * all filled levels in that order, which completes T(0, n) for any n. Every addition is elementwise, so the last one may
 * be done range by range, as ranges become ready.
 *
 * With `round`, every sum is rounded; the arrays must have been rounded too.
 *
 * Memory: one array per level, floor(log2(n - 1)) + 1 levels for n arrays; none for n = 1.
 */
struct gradient_accumulator {
    struct device *device;
    size_t elements;
    uint32_t added; /**< arrays so far; bit l set: level l is filled */
    uint32_t levels;
    void *arrays[GRADIENT_LEVELS];
    gradient_round round; /**< NULL: sums are not rounded. Set it and its context after opening. */
    void *context;
};

/** Allocate memory for sums of `expected` arrays of `elements` elements of the device's type. */
weft_status gradient_accumulator_open(struct gradient_accumulator *sum, struct device *device, size_t elements,
                                      uint32_t expected, struct error *error);
void gradient_accumulator_close(struct gradient_accumulator *sum);

/** Add an array that is not the last; it may be overwritten and is the caller's again on return. */
void gradient_accumulator_add(struct gradient_accumulator *sum, void *array);

/** Add all that was added before to elements [first, first + count) of the last array, in place. */
void gradient_accumulator_complete(const struct gradient_accumulator *sum, void *array, size_t first, size_t count);

/* ---- all ranks ---- */

#define GRADIENT_METRICS 16

struct gradient_sum {
    weft_context *context;
    weft_comm *comm; /**< a duplicate of the caller's, so that gradients have an order of their own */
    struct device *device;
    const struct model_description *description;
    struct micro_batches layout;
    struct gradient_accumulator local;
    struct gradient_buckets buckets;
    float *metrics;   /**< GRADIENT_METRICS elements, followed by the gradients */
    float *gradients; /**< the flat array */
    uint16_t *bf16;   /**< the gradients as they move between ranks; NULL: they move as f32 */
    uint32_t index;   /**< of the current micro-batch on this rank */
};

/**
 * Prepare sums of gradients of `description`, which is borrowed. With `bf16` the gradients are rounded; `device` is of
 * f32, with activations of bf16 in that case. Collective.
 */
weft_status gradient_sum_open(struct gradient_sum *sum, weft_context *context, weft_comm *comm, struct device *device,
                              const struct model_description *description, uint32_t micro_batches, bool bf16,
                              size_t bucket_bytes, struct error *error);
void gradient_sum_close(struct gradient_sum *sum);

/** Before the first gradient of this rank's next micro-batch is ready. */
void gradient_sum_begin(struct gradient_sum *sum);

/** The gradient of a parameter is complete; once in a micro-batch. */
void gradient_sum_ready(struct gradient_sum *sum, size_t parameter);

/** All gradients are ready; `metrics` are the micro-batch's GRADIENT_METRICS numbers. After this rank's last micro-batch
 * the sum is complete on return. */
weft_status gradient_sum_end(struct gradient_sum *sum, const float *metrics, struct error *error);

/** Whether the current micro-batch is this rank's last of the step. */
static inline bool gradient_sum_is_last(const struct gradient_sum *sum)
{
    return sum->index + 1 == sum->layout.share;
}

#endif
