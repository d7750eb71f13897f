/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Finds the origin of a number that is not finite: repeats the passes of a micro-batch and checks the output of each
 * layer.
 *
 * Call it after a loss or a gradient turned out infinite or NaN, so that normal passes pay nothing.
 */
#ifndef WEFT_TRAINING_MODEL_NOT_FINITE_H
#define WEFT_TRAINING_MODEL_NOT_FINITE_H

#include "training/model/model.h"

enum not_finite_in {
    NOT_FINITE_NOWHERE,
    NOT_FINITE_IN_OUTPUT,   /**< of a layer, forwards */
    NOT_FINITE_IN_GRADIENT, /**< all outputs are finite; in the gradient of a layer's weights or input */
};

struct not_finite {
    enum not_finite_in where;
    const char *layer;   /**< the first such one: "h.3.attention"; the description's */
    const char *weights; /**< with an output: a tensor that is not finite itself; NULL: all are */
};

/**
 * Forward and, if all is finite until then, backward of `batch`, as model_forward() and model_backward() do them; the
 * model is for training. `gradients`, of gradient_elements, is overwritten with undefined values.
 */
weft_status not_finite_find(struct model *model, const void *parameters, void *gradients,
                            const struct model_batch *batch, struct not_finite *found, struct error *error);

#endif
