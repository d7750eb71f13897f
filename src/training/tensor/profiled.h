/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A measuring device: passes every kernel on to another device, and counts its calls, time, operations and bytes.
 * Results are the other device's, bit for bit.
 *
 * A *counting* device has no other device: it only counts.
 *
 * A measuring device waits for each kernel to finish, so kernels of an asynchronous device do not overlap. The cost is two clock readings
 * per kernel. Belongs to one thread at a time, as devices do.
 */
#ifndef WEFT_TRAINING_TENSOR_PROFILED_H
#define WEFT_TRAINING_TENSOR_PROFILED_H

#include "training/tensor/device.h"

/** The functions of struct device that compute or move data: constant, member, name for users. */
#define PROFILED_LIST(X)                                                                                               \
    X(WRITE, write, "write")                                                                                           \
    X(READ, read, "read")                                                                                              \
    X(COPY, copy, "copy")                                                                                              \
    X(FILL, fill, "fill")                                                                                              \
    X(COPY_COLUMNS, copy_columns, "copy columns")                                                                      \
    X(ADD, add, "add")                                                                                                 \
    X(ADD_BRANCH, add_branch, "add branch")                                                                            \
    X(DROPOUT, dropout, "dropout")                                                                                     \
    X(DROPOUT_TO_ACTIVATIONS, dropout_to_activations, "dropout, cast")                                                 \
    X(DROPOUT_ADD_BRANCH, dropout_add_branch, "dropout, add branch")                                                   \
    X(TO_ACTIVATIONS, to_activations, "cast to activations")                                                           \
    X(FROM_ACTIVATIONS, from_activations, "cast from activations")                                                     \
    X(SCALE, scale, "scale")                                                                                           \
    X(GELU_FORWARD, gelu_forward, "gelu, forward")                                                                     \
    X(GELU_ERF_FORWARD, gelu_erf_forward, "gelu by erf, forward")                                                      \
    X(TANH_FORWARD, tanh_forward, "tanh, forward")                                                                     \
    X(TANH_BACKWARD, tanh_backward, "tanh, backward")                                                                  \
    X(ADAMW, adamw, "adamw")                                                                                           \
    X(ADAMW_DIRECTION, adamw_direction, "adamw direction")                                                             \
    X(SGD, sgd, "sgd")                                                                                                 \
    X(COMBINE, combine, "combine")                                                                                     \
    X(SUM_OF_SQUARES, sum_of_squares, "sum of squares")                                                                \
    X(COLUMN_SUMS, column_sums, "column sums")                                                                         \
    X(MATMUL, matmul, "matrix product")                                                                                \
    X(LAYER_NORM_FORWARD, layer_norm_forward, "layer norm, forward")                                                   \
    X(LAYER_NORM_BACKWARD, layer_norm_backward, "layer norm, backward")                                                \
    X(STREAM_NORM_FORWARD, stream_norm_forward, "stream norm, forward")                                                \
    X(STREAM_NORM_BACKWARD, stream_norm_backward, "stream norm, backward")                                             \
    X(RMS_NORM_FORWARD, rms_norm_forward, "rms norm, forward")                                                         \
    X(RMS_NORM_BACKWARD, rms_norm_backward, "rms norm, backward")                                                      \
    X(GELU_BACKWARD, gelu_backward, "gelu, backward")                                                                  \
    X(GELU_ERF_BACKWARD, gelu_erf_backward, "gelu by erf, backward")                                                   \
    X(SWIGLU_FORWARD, swiglu_forward, "swiglu, forward")                                                               \
    X(SWIGLU_BACKWARD, swiglu_backward, "swiglu, backward")                                                            \
    X(ROTARY, rotary, "rotary")                                                                                        \
    X(ATTENTION_FORWARD, attention_forward, "attention, forward")                                                      \
    X(ATTENTION_BACKWARD, attention_backward, "attention, backward")                                                   \
    X(EMBEDDING_FORWARD, embedding_forward, "embedding, forward")                                                      \
    X(EMBEDDING_BACKWARD, embedding_backward, "embedding, backward")                                                   \
    X(GATHER_ROWS, gather_rows, "gather rows")                                                                         \
    X(SCATTER_ROWS, scatter_rows, "scatter rows")                                                                      \
    X(CROSS_ENTROPY, cross_entropy, "cross-entropy")                                                                   \
    X(CLASS_SUMS, class_sums, "sums of classes")                                                                       \
    X(DIVIDED_CROSS_ENTROPY, divided_cross_entropy, "cross-entropy, divided")                                          \
    X(PIXELS_TO_ACTIVATIONS, pixels_to_activations, "cast pixels")                                                     \
    X(CONVOLUTION_FORWARD, convolution_forward, "convolution, forward")                                                \
    X(CONVOLUTION_BACKWARD_INPUT, convolution_backward_input, "convolution, gradient of input")                        \
    X(CONVOLUTION_BACKWARD_WEIGHTS, convolution_backward_weights, "convolution, gradient of weights")                  \
    X(BATCH_NORM_RECIPROCALS, batch_norm_reciprocals, "batch norm, reciprocals")                                       \
    X(BATCH_NORM_JOIN, batch_norm_join, "batch norm, joined statistics")                                               \
    X(BATCH_NORM_FORWARD, batch_norm_forward, "batch norm, forward")                                                   \
    X(BATCH_NORM_BACKWARD, batch_norm_backward, "batch norm, backward")                                                \
    X(MAX_POOL_FORWARD, max_pool_forward, "max pool, forward")                                                         \
    X(MAX_POOL_BACKWARD, max_pool_backward, "max pool, backward")                                                      \
    X(AVERAGE_POOL_FORWARD, average_pool_forward, "average pool, forward")                                             \
    X(AVERAGE_POOL_BACKWARD, average_pool_backward, "average pool, backward")                                          \
    X(MIXED_CROSS_ENTROPY, mixed_cross_entropy, "cross-entropy, mixed")

enum profiled_kernel {
#define PROFILED_CONSTANT(constant, member, name) PROFILED_##constant,
    PROFILED_LIST(PROFILED_CONSTANT)
#undef PROFILED_CONSTANT
        PROFILED_KERNELS
};

/** "layer norm, backward". */
extern const char *const profiled_names[PROFILED_KERNELS];

/** The counts of one kernel since the device was opened. */
struct profiled_count {
    uint64_t calls;
    double seconds;
    double flops; /**< of matrix products, convolutions and attention; masked scores are not counted */
    double bytes; /**< read and written, each array once: the traffic without a cache */
};

/** Called by a counting device for the kernels that are limited by arithmetic; `bytes` as struct profiled_count has them. A
 * convolution that is not depthwise is a product of as many operations: of its positions by its outputs. */
struct profiled_watcher {
    void *context;
    void (*product)(void *context, const struct matmul *product, double bytes);
    void (*attention)(void *context, const struct attention *shape, bool backward, double bytes);
};

/** Replace *device by a measuring device around it, which owns it: closing it closes both. */
weft_status profiled_wrap(struct device **device, struct error *error);

/**
 * Open a device of these types that counts kernels but executes none. Its memory does not exist: an access
 * is a fault. So the work of a pass can be recorded for networks that no machine here could hold.
 * `watcher` is copied. Errors: MEMORY.
 */
weft_status profiled_open_counting(weft_type type, weft_type activations, const struct profiled_watcher *watcher,
                                   struct device **device, struct error *error);

/** The counts of a device from profiled_wrap() or profiled_open_counting(), PROFILED_KERNELS of them, updated by every call. */
const struct profiled_count *profiled_counts(const struct device *device);

#endif
