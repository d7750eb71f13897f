/* SPDX-License-Identifier: Apache-2.0 */
/** Parts that layers share: linear maps, norms, and the residual branch. For layers only. */
#ifndef WEFT_TRAINING_MODEL_LAYERS_INTERNAL_COMMON_H
#define WEFT_TRAINING_MODEL_LAYERS_INTERNAL_COMMON_H

#include "training/model/layer.h"

/** Store `count` elements of the gradient of a parameter that the input pass computed; nothing for NO_PARAMETER. */
void gradient_store(const struct pass *pass, size_t parameter, size_t count, const void *sums);

/* ---- linear maps ---- */

/**
 * y = x weight + bias. Weights are stored as [inputs, outputs], as in GPT-2's public files, or as [outputs, inputs], as
 * in PyTorch's Linear.
 */
struct linear {
    size_t inputs;
    size_t outputs;
    bool outputs_first;
    bool inputs_divided;             /**< over a tensor axis; otherwise outputs are */
    bool whole;                      /**< neither: every rank has all of it */
    size_t segments[MODEL_SEGMENTS]; /**< outputs that are divided by themselves; all 0: they are one segment */
    size_t weight;                   /**< indices of the parameters */
    size_t bias;                     /**< NO_PARAMETER: none */
};

/** Add its parameters to the last layer, with the given names after `prefix`; a `bias` of NULL means none. */
weft_status linear_add(struct model_description *description, struct linear *linear, double deviation,
                       const char *prefix, const char *weight, const char *bias, struct error *error);

/** Whether both are the same but for the numbers of their parameters. */
bool linears_are_alike(const struct linear *a, const struct linear *b);

/** Keep the part of one rank of a tensor axis. Where inputs are divided, the ranks' outputs add up to the whole ones, and
 * otherwise so do the gradients of x. branch_leave() and norm_backward_input() add them. */
void linear_divide(struct linear *linear, size_t ranks, size_t rank);

/** x, y and their gradients are activations. The outputs of row i begin at y + i `stride`. */
void linear_forward(const struct pass *pass, const struct linear *linear, const void *x, void *y, size_t stride);

/** The gradient of x, which is added to gradient_x with `accumulate`. */
void linear_backward_input(const struct pass *pass, const struct linear *linear, const void *gradient_y, size_t stride,
                           bool accumulate, void *gradient_x);

/** Gradients of weight and bias. The bias's needs rows of gradient_y without gaps (stride == outputs). */
void linear_backward_weights(const struct pass *pass, const struct linear *linear, const void *x,
                             const void *gradient_y, size_t stride);

/** The weight's alone, where another kernel computes that of the bias. */
void linear_backward_weight(const struct pass *pass, const struct linear *linear, const void *x, const void *gradient_y,
                            size_t stride);

/* ---- norms ---- */

/** Layer norm or root-mean-square norm of rows. */
struct norm {
    size_t width;
    double epsilon;
    bool after;  /**< of a branch's sum with x, not of x (a layer norm): see branch_enter() */
    size_t gain; /**< indices of the parameters */
    size_t bias; /**< NO_PARAMETER: a root-mean-square norm, which has none */
};

/** The output of a norm, and the values for its backward pass. */
struct norm_kept {
    void *out; /**< rows x width activations */
    void *means, *reciprocals;
    void *sum; /**< with `after`: this rank's rows of x + branch, of the device's type; otherwise NULL */
};

/** Take memory for `kept` from `arena`. */
void norm_plan(const struct norm *norm, const struct layer_room *room, struct arena *arena, struct norm_kept *kept);

/** Add its parameters to the last layer; a `bias` of NULL makes it a root-mean-square norm. */
weft_status norm_add(struct model_description *description, struct norm *norm, const char *prefix, const char *gain,
                     const char *bias, struct error *error);

/** Whether both are the same but for the numbers of their parameters. */
bool norms_are_alike(const struct norm *a, const struct norm *b);

/** The output of all rows, from those rows of x that this rank has. */
void norm_forward(const struct pass *pass, const struct norm *norm, const void *x, const struct norm_kept *kept);

/** The gradients of gain and bias, which the input pass computes and the weights pass stores. */
struct norm_sums {
    void *gain, *bias;
};

/** Take memory for `sums` from `arena`. */
void norm_plan_sums(const struct norm *norm, const struct layer_room *room, struct arena *arena,
                    struct norm_sums *sums);

/** The gradient of this rank's rows of x is added to gradient_x, or overwrites it. On a tensor axis each rank has a
 * summand of gradient_out, which is summed first. */
void norm_backward_input(const struct pass *pass, const struct norm *norm, const struct norm_kept *kept, const void *x,
                         void *gradient_out, bool accumulate, void *gradient_x, const struct norm_sums *sums);
/** Where ranks have a part of the rows: the sums over all of them. */
void norm_sums_join(const struct pass *pass, const struct norm *norm, const struct norm_sums *sums);
void norm_backward_weights(const struct pass *pass, const struct norm *norm, const struct norm_sums *sums);

/* ---- residual branches ---- */

/*
 * A branch is y = x + branch(norm(x)), or, where the norm comes after (Vaswani et al. 2017), y = norm(x + branch(x)). Then
 * y, not the sum, is the residual stream.
 */

/** What the branch's products read, into kept->out: norm(x), or x as activations. All rows, from this rank's rows of x. */
void branch_enter(const struct pass *pass, const struct norm *norm, const void *x, const struct norm_kept *kept);

/** y from x and the branch, which is overwritten. On a tensor axis each rank has a summand of it, which is summed
 * first. Without y only `kept` is filled, where the norm comes after. */
void branch_leave(const struct pass *pass, const struct layer *layer, const struct norm *norm, const void *x,
                  void *branch, const struct norm_kept *kept, void *y);

/** From the gradient of y, which becomes that of the sum: the gradient of all rows of the branch, as activations. */
void branch_begin_backward(const struct pass *pass, const struct layer *layer, const struct norm *norm,
                           const struct norm_kept *kept, void *gradient, void *to_branch, const struct norm_sums *sums);

/** Adds the branch's part to the gradient of x: `to_out` is that of kept->out. On a tensor axis each rank has a summand of
 * it, which is summed first. */
void branch_end_backward(const struct pass *pass, const struct norm *norm, const struct norm_kept *kept, const void *x,
                         void *to_out, void *gradient, const struct norm_sums *sums);

/** The dropout of the output of `layer` in this pass; its share is 0 where there is none. */
struct dropout pass_dropout(const struct pass *pass, const struct layer *layer);

#endif
