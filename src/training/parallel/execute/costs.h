/* SPDX-License-Identifier: Apache-2.0 */
/** What the layers of a network cost: a pipeline's stages are balanced by it. */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_COSTS_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_COSTS_H

#include "training/model/model.h"

/** Kinds of passes: forward, backward for inputs, backward for weights, as in enum step_operation_kind. */
#define COSTS_PASSES 3

/** What is measured: the layers of one rank. */
struct costs_setting {
    const struct model_description *description; /**< of the whole network; borrowed */
    struct model_options options;                /**< batch and sequence of a micro-batch, recomputation, dropout */
    weft_type activations;                       /**< of products and activations */
    int threads;                                 /**< of a rank */
    uint32_t
        tensor; /**< ranks of a tensor axis: layers are divided, without the collectives within them; 0, 1: whole */
    bool divides_rows; /**< with sequence parallelism */
    /** Ranks that compute at once and share the memory's bandwidth: threads of this process, no more than the processors
     * that it may use have room for. 0, 1: one alone. */
    uint32_t together;
};

/**
 * Seconds that each pass of each layer takes for one micro-batch: seconds[0 .. layer_count). Layers that are alike are
 * measured once, so this takes as long as a few micro-batches of a network of a few layers. As in a step, each of them
 * finds its weights, gradients and activations where those of others have pushed them out of the cache: several copies of a
 * layer run forward and then backward in reverse, as many as there are such layers, up to four with weights of 256 MiB.
 * Their numbers are random, as products of zeros take less time. All memory is freed. Each figure is a median.
 *
 * Errors: ARGUMENT if layers cannot be divided; MEMORY, and those of the device.
 */
weft_status costs_measure_passes(const struct costs_setting *setting, double (*seconds)[COSTS_PASSES],
                                 struct error *error);

/** The sum of the passes of each layer: costs[0 .. layer_count), of one rank alone on `device`. `description` has all layers. */
weft_status costs_measure(const struct model_description *description, struct device *device,
                          const struct model_options *options, double *costs, struct error *error);

/** The same in floating-point operations, without measuring. */
void costs_estimate(const struct model_description *description, const struct model_options *options, double *costs);

#endif
