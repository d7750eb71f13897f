/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A convolution without bias, the batch norm of its output, and a rectifier. For layers only.
 *
 * What is kept is the convolution's output y; the kernels of training/tensor/images.h normalize it while they read it. In a
 * pass that prepares a backward pass, a batch norm takes its statistics from the micro-batch, and its running statistics
 * follow (struct model_parameter, `statistic`). In evaluation, and where both running statistics are frozen, it is
 * *frozen*: they are its statistics. With pass->norms, batch norms that are not frozen are *synchronized*: their statistics are
 * those of the micro-batches of all ranks (training/model/norm_group.h).
 */
#ifndef WEFT_TRAINING_MODEL_LAYERS_INTERNAL_CONVOLUTION_UNIT_H
#define WEFT_TRAINING_MODEL_LAYERS_INTERNAL_CONVOLUTION_UNIT_H

#include "training/model/layers/internal/common.h"

struct convolution_unit {
    struct convolution shape; /**< of one image: `batch` is 1 */
    enum rectifier rectifier;
    double epsilon;
    size_t weight, gain, bias, mean, variance; /**< indices of the parameters */
};

/** Names of modules: "features.0.0" has the parameter "features.0.0.weight". */
struct convolution_unit_names {
    char convolution[48], norm[48];
};

/** Elements of the output of one image, and operations of its forward pass. */
size_t convolution_unit_width(const struct convolution_unit *unit);
double convolution_unit_flops(const struct convolution_unit *unit);

/** Add the parameters to the last layer. Weights begin as He et al. 2015 ("Delving deep into rectifiers") have them, by
 * the number of outputs, as torchvision's networks do. */
weft_status convolution_unit_add(struct model_description *description, struct convolution_unit *unit,
                                 const struct convolution_unit_names *names, struct error *error);

/** Whether both are the same but for the numbers of their parameters. */
bool convolution_units_are_alike(const struct convolution_unit *a, const struct convolution_unit *b);

/** What is kept from forward to backward. The vectors hold an element for each output channel. */
struct convolution_kept {
    void *y;                                             /**< activations */
    void *gain, *bias, *means, *variances, *reciprocals; /**< the weights pass has no parameters */
};

/** From the input pass to the weights pass. */
struct convolution_deferred {
    void *slope; /**< activations: d of training/tensor/images.h */
    void *gain, *bias, *mean, *variance;
    void *shared_gain, *shared_bias; /**< of a synchronized batch norm: averages of `gain` and `bias` over the ranks */
};

/** Take memory from `arena`. */
void convolution_unit_plan(const struct convolution_unit *unit, const struct layer_room *room, struct arena *arena,
                           struct convolution_kept *kept);
void convolution_unit_plan_deferred(const struct convolution_unit *unit, const struct layer_room *room,
                                    struct arena *arena, struct convolution_deferred *deferred);

/** The convolution of the pass's images, and the number of positions of its output. */
struct convolution convolution_unit_shape(const struct pass *pass, const struct convolution_unit *unit);
size_t convolution_unit_rows(const struct pass *pass, const struct convolution_unit *unit);

/** The batch norm as kernels take it that read its output or write its slope; `deferred` NULL: in a forward pass. */
struct batch_norm convolution_unit_norm(const struct pass *pass, const struct convolution_unit *unit,
                                        const struct convolution_kept *kept,
                                        const struct convolution_deferred *deferred);

/** From x, or the output of the batch norm `before` of x unless that is NULL, to kept->y and its statistics. */
void convolution_unit_forward(const struct pass *pass, const struct convolution_unit *unit,
                              const struct convolution_kept *kept, const void *x, const struct batch_norm *before);

/** After a kernel has written deferred->slope, with the gradients of gain and bias: share them if the batch norm is
 * synchronized. */
void convolution_unit_share_gradients(const struct pass *pass, const struct convolution_unit *unit,
                                      const struct convolution_deferred *deferred);

/** From deferred->slope to gradient_x: that of x, or the slope of `before` of x. */
void convolution_unit_backward_input(const struct pass *pass, const struct convolution_unit *unit,
                                     const struct convolution_kept *kept, const struct convolution_deferred *deferred,
                                     const void *x, const struct batch_norm *before, void *gradient_x);

/** The gradients of the running statistics, in the input pass. */
void convolution_unit_compare_statistics(const struct pass *pass, const struct convolution_unit *unit,
                                         const struct convolution_kept *kept,
                                         const struct convolution_deferred *deferred);

/** All gradients of parameters, from the same x and `before`. */
void convolution_unit_backward_weights(const struct pass *pass, const struct convolution_unit *unit,
                                       const struct convolution_kept *kept, const struct convolution_deferred *deferred,
                                       const void *x, const struct batch_norm *before);

#endif
