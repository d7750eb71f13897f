/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The optimiser over ranges of a model's flat array: AdamW with weight decay for the tensors that have it, and the norm
 * of the gradient. Results do not depend on how the array is cut into ranges, so a shard is a range.
 */
#ifndef WEFT_MODEL_OPTIMISER_H
#define WEFT_MODEL_OPTIMISER_H

#include "model/model.h"
#include "tensor/adamw.h"
#include "tensor/tree.h"

/**
 * One AdamW step on elements [first, first + count) of the flat array. Each pointer addresses element `first` of its
 * array (a shard may hold its range only). step->weight_decay is applied to tensors with decay, 0 to others; gaps stay
 * 0. `narrowed` (model_narrowed_weights(), may be NULL) receives the new weights as activations.
 */
void model_update(const struct model_description *description, struct device *device, const struct adamw *step,
                  size_t first, size_t count, void *parameters, const void *gradients, void *first_moments,
                  void *second_moments, void *narrowed);

/**
 * The Euclidean norm of `count` elements of a gradient on one rank; `sums` is the caller's scratch of
 * tree_blocks(count) doubles. Sharded arrays: sum_of_squares() on each share, exchange the sums, then sqrt(tree_sum()).
 */
double model_gradient_norm(struct device *device, size_t count, const void *gradients, double *sums);

#endif
