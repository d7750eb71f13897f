/* SPDX-License-Identifier: Apache-2.0 */
/** Layer norm or root-mean-square norm of rows, inside a layer. For layers only. */
#ifndef WEFT_TRAINING_MODEL_LAYERS_INTERNAL_NORM_H
#define WEFT_TRAINING_MODEL_LAYERS_INTERNAL_NORM_H

#include "training/model/layer.h"

struct norm {
    size_t width;
    double epsilon;
    size_t gain; /**< numbers of the parameters */
    size_t bias; /**< NO_PARAMETER: a root-mean-square norm, which has none */
};

/** What a norm keeps for its backward pass, and gives to what comes behind it. */
struct norm_kept {
    void *out; /**< rows x width activations */
    void *means, *reciprocals;
};

void norm_plan(const struct norm *norm, const struct layer_room *room, struct purse *purse, struct norm_kept *kept);

/** Add its parameters to the last layer; a `bias` of NULL makes it a root-mean-square norm. */
weft_status norm_add(struct model_description *description, struct norm *norm, const char *prefix, const char *gain,
                     const char *bias, struct error *error);

void norm_forward(const struct pass *pass, const struct norm *norm, const void *x, const struct norm_kept *kept);

/** Gradients of gain and bias; that of x is added to gradient_x, or put there. */
void norm_backward(const struct pass *pass, const struct norm *norm, const struct norm_kept *kept, const void *x,
                   const void *gradient_out, bool accumulate, void *gradient_x);

#endif
