/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Where a number that is not finite came from: the passes of a micro-batch once more, looking at what each layer makes.
 *
 * For when a loss or a gradient was seen to be infinite or not a number: a pass that nobody looks at costs nothing.
 */
#ifndef WEFT_TRAINING_MODEL_NOT_FINITE_H
#define WEFT_TRAINING_MODEL_NOT_FINITE_H

#include "training/model/model.h"

enum not_finite_in {
    NOT_FINITE_NOWHERE,
    NOT_FINITE_IN_OUTPUT,   /**< of a layer, forwards */
    NOT_FINITE_IN_GRADIENT, /**< all outputs are finite: of a layer's weights or of what entered it, backwards */
};

struct not_finite {
    enum not_finite_in where;
    const char *layer;   /**< the first such one: "h.3.attention"; the description's */
    const char *weights; /**< with an output: a tensor that is not finite itself; NULL: all are */
};

/**
 * Forward and, if all is finite until then, backward of `batch`, as model_forward() and model_backward() do them; the
 * model is for training. `gradients` is overwritten, and means nothing afterwards.
 */
weft_status not_finite_find(struct model *model, const void *parameters, void *gradients,
                            const struct model_batch *batch, struct not_finite *found, struct error *error);

#endif
