/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Optimizers over ranges of a model's flat array, and the norm of the gradient. With g the gradient times its scale, p
 * the parameters, w the weight decay (0 where the parameter has none) and the rate multiplied by the parameter's factor
 * (frozen tensors are skipped, and their moments too):
 *
 *     adamw   training/tensor/adamw.h
 *     sgd     m = momentum m + g + w p;   p = p - rate m
 *     lamb    r = AdamW's direction + w p;   p = p - rate (|p| / |r|) r        (You et al. 2020, algorithm 2)
 *     lars    r = g + w p;   m = momentum m + rate trust (|p| / |r|) r;   p = p - m   (You et al. 2017, algorithm 1)
 *
 * Optimizers treat running statistics alike: each of them sets p = p - OPTIMIZER_STATISTIC_MOMENTUM g,
 * where g is the average over the micro-batches of the difference between p and a micro-batch's statistic, neither scaled
 * for f16 nor clipped. So p = 0.9 p + 0.1 (the average of the micro-batches' statistics), as PyTorch's batch norm has it
 * for one micro-batch. They have no moments, no weight decay and no part in the gradient's norm. A difference also bears
 * being summed in bf16: its rounding moves p by at most 0.1 x 2^-8 of it for each sum on the way.
 *
 * The norms are those of one tensor; tensors without weight decay, and those where either norm is 0, are not scaled by
 * them (the ratio, trust included, is 1). A norm is the root of a canonical tree over the blocks of the flat array that have
 * some of the tensor (training/tensor/tree.h).
 *
 * Results of adamw and sgd do not depend on how the array is cut into ranges, so a shard is a range. For the other two
 * optimizer_update() needs whole tensors. With shards of whole blocks, ranks make their step in three parts:
 *
 *     optimizer_direct(..., range, own, &arrays, sums);      sums of squares of the rank's blocks; others stay 0
 *     ... add the sums over the ranks: adding 0 is exact ...
 *     count = optimizer_add_sums(description, range, sums, norms);
 *     optimizer_follow(..., own, &arrays, norms, count);
 */
#ifndef WEFT_TRAINING_OPTIMIZER_OPTIMIZER_H
#define WEFT_TRAINING_OPTIMIZER_OPTIMIZER_H

#include "training/model/model.h"
#include "training/optimizer/parameter_rules.h"
#include "training/tensor/adamw.h"
#include "training/tensor/tree.h"

/** The share of a micro-batch's statistic in the running one: that of PyTorch. */
#define OPTIMIZER_STATISTIC_MOMENTUM 0.1

enum optimizer_kind {
    OPTIMIZER_ADAMW,
    OPTIMIZER_SGD,
    OPTIMIZER_LAMB,
    OPTIMIZER_LARS,
};

/** "adamw", "sgd", "lamb", "lars", in the enumeration's order; ends with NULL. */
extern const char *const optimizer_names[];

struct optimizer {
    enum optimizer_kind kind;
    double beta1;    /**< adamw, lamb: decay of the first moment */
    double beta2;    /**< adamw, lamb: decay of the second moment */
    double epsilon;  /**< adamw, lamb: added to the root of the second moment */
    double momentum; /**< sgd, lars */
    double trust;    /**< lars */
    double weight_decay;
};

/** Whether there are second moments. */
bool optimizer_has_second_moments(enum optimizer_kind kind);

/** What a step moves for each parameter. */
struct optimizer_traffic {
    double arrays;   /**< of the device's type that are read or written, each time counted */
    uint32_t passes; /**< over the arrays */
    bool casts;      /**< new weights are cast to activations in a pass of their own; otherwise they are on the way */
};

/** Counted from the calls in optimizer.c. */
struct optimizer_traffic optimizer_traffic_of(enum optimizer_kind kind);

struct optimizer_step {
    uint64_t number; /**< from 1 */
    double rate;
    double gradient_scale; /**< averaging and clipping in one */
    double mean;           /**< averaging alone, for running statistics: 1 / micro-batches */
};

/** A range of the arrays: each pointer addresses its first element. */
struct optimizer_arrays {
    void *parameters;
    void *gradients; /**< lamb and lars overwrite them */
    void *first_moments;
    void *second_moments; /**< NULL where there are none */
    void *as_activations; /**< model_weights_as_activations(): receives the new weights as activations; may be NULL */
    double *sums; /**< scratch for the blocks that the largest tensor and the gap after it touch, for lamb and lars */
};

/** One step on elements [first, first + count) of the flat array. Gaps stay 0. */
void optimizer_update(const struct model_description *description, struct device *device,
                      const struct optimizer *optimizer, const struct optimizer_step *step, size_t first, size_t count,
                      const struct optimizer_arrays *arrays);

/** Whether steps need the norms of whole tensors: lamb and lars. */
bool optimizer_needs_norms(enum optimizer_kind kind);

/** Elements of the flat array. */
struct optimizer_range {
    size_t first, count;
};

/** How many sums the tensors of a range have, on any rank. */
size_t optimizer_sum_count(const struct model_description *description, struct optimizer_range range);

/** Moments and directions of a rank's `own` part of the range, where `arrays` begin; and its sums, among those of all:
 * `sums` is 0 before. */
void optimizer_direct(const struct model_description *description, struct device *device,
                      const struct optimizer *optimizer, const struct optimizer_step *step,
                      struct optimizer_range range, struct optimizer_range own, const struct optimizer_arrays *arrays,
                      double *sums);

/** Squares of the norms of one tensor. */
struct optimizer_norms {
    size_t parameter; /**< its index in the description */
    double parameters, direction;
};

/** The norms of the tensors of a range; `norms` has room for one of each parameter. Returns their number. */
size_t optimizer_add_sums(const struct model_description *description, struct optimizer_range range, const double *sums,
                          struct optimizer_norms *norms);

/** New parameters of the `own` part. */
void optimizer_follow(const struct model_description *description, struct device *device,
                      const struct optimizer *optimizer, const struct optimizer_step *step, struct optimizer_range own,
                      const struct optimizer_arrays *arrays, const struct optimizer_norms *norms, size_t count);

/** Set the elements of frozen parameters in elements [first, first + count) of a flat array to 0; `array` addresses
 * element `first`. */
void optimizer_clear_frozen(const struct model_description *description, struct device *device, size_t first,
                            size_t count, void *array);

/** Whether a parameter counts in the gradient's norm. */
static inline bool optimizer_counts(const struct model_parameter *parameter)
{
    return !parameter->frozen && !parameter->statistic;
}

/**
 * The Euclidean norm of `count` elements of a gradient on one rank; `sums` is the caller's scratch of
 * tree_blocks(count) doubles. Sharded arrays: sum_of_squares() on each share, exchange the sums, then sqrt(tree_sum()).
 */
double optimizer_gradient_norm(struct device *device, size_t count, const void *gradients, double *sums);

#endif
