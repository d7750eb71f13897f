/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a layer's branch joins the residual stream, and what of the stream's gradient goes back into it: with dropout in
 * between where the pass has it. For layers only.
 */
#ifndef WEFT_TRAINING_MODEL_LAYERS_INTERNAL_BRANCH_H
#define WEFT_TRAINING_MODEL_LAYERS_INTERNAL_BRANCH_H

#include "training/model/layer.h"

/** The dropout of what `layer` makes in this pass; its share is 0 where there is none. */
struct dropout pass_dropout(const struct pass *pass, const struct layer *layer);

/** y = x + branch, which are activations. */
void branch_join(const struct pass *pass, const struct layer *layer, const void *x, const void *branch, void *y);

/** The gradient of the branch, as activations, from that of y: in `scratch`, which has room for the rows, or where it
 * is already. */
const void *branch_gradient(const struct pass *pass, const struct layer *layer, const void *gradient, void *scratch);

#endif
