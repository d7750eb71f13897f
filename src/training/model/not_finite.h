/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Finds the origin of a number that is not finite: the output of each layer is checked while passes are repeated.
 *
 * Call it after a loss or a gradient turned out infinite or NaN, so that normal passes pay nothing.
 */
#ifndef WEFT_TRAINING_MODEL_NOT_FINITE_H
#define WEFT_TRAINING_MODEL_NOT_FINITE_H

#include "training/model/passes.h"

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

/** A search: the first layer is kept. */
struct not_finite_search {
    struct device *device;
    const struct model_description *description;
    struct not_finite found; /**< initially NOT_FINITE_NOWHERE */
};

/** Check what a pass has left, from within a model_watcher: `turn` is what the watcher got, `arrays` those of the layer. */
void not_finite_look(struct not_finite_search *search, const struct model_turn *turn,
                     const struct layer_arrays *arrays);

#endif
