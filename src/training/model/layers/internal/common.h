/* SPDX-License-Identifier: Apache-2.0 */
/** Parts that layers share: linear maps, norms, and the residual branch. For layers only. */
#ifndef WEFT_TRAINING_MODEL_LAYERS_INTERNAL_COMMON_H
#define WEFT_TRAINING_MODEL_LAYERS_INTERNAL_COMMON_H

#include "training/model/layer.h"

/* ---- linear maps ---- */

/**
 * y = x weight + bias. Weights are stored as [inputs, outputs], as in GPT-2's public files, or as [outputs, inputs], as
 * in PyTorch's Linear.
 */
struct linear {
    size_t inputs;
    size_t outputs;
    bool outputs_first;
    size_t weight; /**< indices of the parameters */
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

/** The same without the gradient of the bias, which another kernel computes. */
void linear_backward_weight(const struct pass *pass, const struct linear *linear, const void *x, const void *gradient_y,
                            size_t stride, bool accumulate, void *gradient_x);

/* ---- norms ---- */

/** Layer norm or root-mean-square norm of rows. */
struct norm {
    size_t width;
    double epsilon;
    size_t gain; /**< indices of the parameters */
    size_t bias; /**< NO_PARAMETER: a root-mean-square norm, which has none */
};

/** The output of a norm, and the values for its backward pass. */
struct norm_kept {
    void *out; /**< rows x width activations */
    void *means, *reciprocals;
};

/** Take memory for `kept` from `arena`. */
void norm_plan(const struct norm *norm, const struct layer_room *room, struct arena *arena, struct norm_kept *kept);

/** Add its parameters to the last layer; a `bias` of NULL makes it a root-mean-square norm. */
weft_status norm_add(struct model_description *description, struct norm *norm, const char *prefix, const char *gain,
                     const char *bias, struct error *error);

void norm_forward(const struct pass *pass, const struct norm *norm, const void *x, const struct norm_kept *kept);

/** Gradients of gain and bias; that of x is added to gradient_x, or overwrites it. */
void norm_backward(const struct pass *pass, const struct norm *norm, const struct norm_kept *kept, const void *x,
                   const void *gradient_out, bool accumulate, void *gradient_x);

/* ---- residual branches ---- */

/** The dropout of the output of `layer` in this pass; its share is 0 where there is none. */
struct dropout pass_dropout(const struct pass *pass, const struct layer *layer);

/** y = x + dropout(branch); the branch is activations. */
void branch_join(const struct pass *pass, const struct layer *layer, const void *x, const void *branch, void *y);

/** The gradient of the branch, as activations, from that of y: in `scratch`, which has room for the rows, or `gradient`
 * itself. */
const void *branch_gradient(const struct pass *pass, const struct layer *layer, const void *gradient, void *scratch);

#endif
