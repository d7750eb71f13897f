/* SPDX-License-Identifier: Apache-2.0 */
/**
 * y = x weight + bias, inside a layer. For layers only.
 *
 * Weights lie as [inputs, outputs], as in GPT-2's public files, or as [outputs, inputs], as PyTorch's Linear has them.
 */
#ifndef WEFT_TRAINING_MODEL_LAYERS_INTERNAL_LINEAR_H
#define WEFT_TRAINING_MODEL_LAYERS_INTERNAL_LINEAR_H

#include "training/model/layer.h"

struct linear {
    size_t inputs;
    size_t outputs;
    bool outputs_first;
    size_t weight; /**< numbers of the parameters */
    size_t bias;   /**< NO_PARAMETER: none */
};

/** Add its parameters to the last layer, with the given names after `prefix`; a `bias` of NULL means none. */
weft_status linear_add(struct model_description *description, struct linear *linear, double deviation,
                       const char *prefix, const char *weight, const char *bias, struct error *error);

/** x, y and their gradients are activations. The outputs of row i begin at y + i `stride`. */
void linear_forward(const struct pass *pass, const struct linear *linear, const void *x, void *y, size_t stride);

/**
 * Gradients of weight, bias and x: that of x is added to gradient_x with `accumulate`. The bias's needs rows
 * of gradient_y without gaps (stride == outputs).
 */
void linear_backward(const struct pass *pass, const struct linear *linear, const void *x, const void *gradient_y,
                     size_t stride, bool accumulate, void *gradient_x);

/** The same without the bias's, which somebody else has. */
void linear_backward_weight(const struct pass *pass, const struct linear *linear, const void *x, const void *gradient_y,
                            size_t stride, bool accumulate, void *gradient_x);

#endif
