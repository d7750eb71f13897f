/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The work of a training step on one rank: the matrix products, the bytes of passes over memory, the kernels, and the
 * collectives within layers on a tensor axis.
 *
 * It is recorded, not declared. The network's own layers run on a device that counts kernels without executing them
 * (profiled_open_counting() of training/tensor/profiled.h), so a new layer needs nothing here. What an implementation does
 * differently from these layers (training/simulate/implementation.h) is applied to the recording.
 *
 *     const struct work_settings settings = {.implementation = weft, .batch = 4, .sequence = 1024};
 *     struct model_work *work;
 *     status = model_work_open(description, &settings, &work, error);
 *     const struct layer_work *forward = model_work_of(work, layer, WORK_FORWARD);
 *     seconds = device_seconds(&cluster->devices[0], forward);
 *     model_work_close(work);
 *
 * Work does not change after it is opened and may be read by several threads.
 */
#ifndef WEFT_TRAINING_SIMULATE_WORK_H
#define WEFT_TRAINING_SIMULATE_WORK_H

#include "core/schedule/format/schedule.h"
#include "training/model/model.h"
#include "training/optimizer/optimizer.h"
#include "training/simulate/implementation.h"

/** The passes of a layer for one micro-batch. */
enum work_pass {
    WORK_FORWARD,
    WORK_BACKWARD_INPUT,   /**< without recomputation */
    WORK_BACKWARD_WEIGHTS, /**< without adding to the sum over micro-batches: work_accumulate() */
    WORK_RECOMPUTE,        /**< before the pass for inputs, and again before one for weights that does not follow it
                              immediately; nothing for layers that keep their activations */
    WORK_PASSES
};

/** Kernels that multiply matrices of the same shape: c = a b with c of rows x columns. */
struct work_product {
    double rows, columns, inner; /**< elements */
    double batch;                /**< products in one kernel */
    double count;                /**< of kernels */
    double bytes;                /**< read and written by one kernel, each array once */
};

/** A collective over the tensor axis, which the pass waits for. */
struct work_exchange {
    enum collective collective; /**< all-reduce, reduce-scatter or all-gather */
    double bytes;               /**< of the array that is reduced or assembled: of all ranks together */
};

/** Products that find no room are averaged with the last one, so that operations, bytes and counts stay exact. */
#define WORK_PRODUCTS_MOST  12
#define WORK_EXCHANGES_MOST 8

/** What a device does in a pass. Zeroed: nothing. */
struct layer_work {
    enum cluster_precision precision; /**< of the products */
    struct work_product products[WORK_PRODUCTS_MOST];
    uint32_t product_count;
    double bytes;   /**< read and written by all other kernels */
    double kernels; /**< number of kernels, products included */
    struct work_exchange exchanges[WORK_EXCHANGES_MOST];
    uint32_t exchange_count;
};

/** What the work depends on, besides the description, which on a tensor axis is divided (model_divide()). */
struct work_settings {
    const struct implementation *implementation;
    size_t batch;      /**< sequences in a micro-batch */
    size_t sequence;   /**< tokens in a sequence */
    bool divides_rows; /**< rows between layers are divided over the tensor axis ("sequence parallelism") */
    enum model_recompute recompute;
    uint32_t recompute_layers; /**< struct model_options; only with a runnable implementation */
    double dropout;            /**< of rows between layers: struct model_options */
};

struct model_work;

/**
 * Record the work of all layers of `description`, which is borrowed. Layers that are alike (model_layers_are_alike(), and
 * both recomputed or neither) are recorded once, which takes about a microsecond for each of their kernels.
 *
 * Errors: ARGUMENT as for model_open() (a micro-batch that does not fit the model or the tensor axis), or for a layer with
 * more collectives than the list above holds; MEMORY.
 */
weft_status model_work_open(const struct model_description *description, const struct work_settings *settings,
                            struct model_work **work, struct error *error);
void model_work_close(struct model_work *work);

/**
 * The work of a pass of layer `layer`. Layers that do the same share one object: equal pointers mean equal work, so a
 * caller needs to price each only once.
 */
const struct layer_work *model_work_of(const struct model_work *work, size_t layer, enum work_pass pass);

/** The number of different objects above. */
size_t model_work_kinds(const struct model_work *work);

/** The description that it was opened with. */
const struct model_description *model_work_description(const struct model_work *work);

/** Bytes of the rows that leave a layer on one rank of the tensor axis: a message of the pipeline. */
double model_work_output_bytes(const struct model_work *work, size_t layer);

/** Floating-point operations of the products. */
double layer_work_flops(const struct layer_work *work);

/** Work that is not a layer's, for `elements` parameters: adding a micro-batch's gradients to their sum, the squares of
 * the gradient's norm, and a step of the optimizer (of Weft's own implementations; others have AdamW). */
struct layer_work work_accumulate(const struct implementation *implementation, double elements);
struct layer_work work_norm(const struct implementation *implementation, double elements);
struct layer_work work_step(const struct implementation *implementation, enum optimizer_kind optimizer,
                            double elements);

#endif
