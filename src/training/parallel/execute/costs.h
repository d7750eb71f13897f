/* SPDX-License-Identifier: Apache-2.0 */
/** What the layers of a network cost: a pipeline's stages are balanced by it. */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_COSTS_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_COSTS_H

#include "training/model/model.h"

/**
 * Seconds that each layer takes for one micro-batch, forward and backward: costs[0 .. layer_count). Layers that are alike are
 * measured once, so this takes as long as a micro-batch of a network of a few layers, and the memory of its largest
 * layer, which is freed. `description` has all layers.
 *
 * Errors: MEMORY, and those of the device.
 */
weft_status costs_measure(const struct model_description *description, struct device *device,
                          const struct model_options *options, double *costs, struct error *error);

/** The same in floating-point operations, without measuring. */
void costs_estimate(const struct model_description *description, const struct model_options *options, double *costs);

#endif
