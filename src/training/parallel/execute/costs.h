/* SPDX-License-Identifier: Apache-2.0 */
/** What the layers of a network cost: a pipeline's stages are balanced by it. */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_COSTS_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_COSTS_H

#include "training/model/model.h"

/**
 * Seconds that each layer takes for one micro-batch, forward and backward: costs[0 .. layer_count). Layers that are alike are
 * measured once, so this takes as long as a few micro-batches of a network of a few layers. As in a step, each of them
 * finds its weights and gradients where those of others have pushed them out of the cache: a layer is measured with
 * several copies of its memory in turn, as many as there are such layers, up to 256 MiB or the memory of the largest layer.
 * It is freed. `description` has all layers.
 *
 * Errors: MEMORY, and those of the device.
 */
weft_status costs_measure(const struct model_description *description, struct device *device,
                          const struct model_options *options, double *costs, struct error *error);

/**
 * The same while `ranks` ranks of `threads` threads compute at once and share the memory's bandwidth: threads of this
 * process, no more than the processors that it may use have room for. Products and activations are in `activations`.
 * Errors: also those of device_open().
 */
weft_status costs_measure_together(const struct model_description *description, weft_type activations, int threads,
                                   uint32_t ranks, const struct model_options *options, double *costs,
                                   struct error *error);

/** The same in floating-point operations, without measuring. */
void costs_estimate(const struct model_description *description, const struct model_options *options, double *costs);

#endif
