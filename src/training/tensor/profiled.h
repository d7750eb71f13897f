/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A device that measures: it passes every kernel on to another device, and counts how often each was called, how long
 * it took, and how much it computed and moved. Results are the other device's, bit for bit.
 *
 * Each kernel is waited for before its time is taken, so that on a device which computes behind the caller's back
 * kernels no longer overlap. Costs two looks at the clock a kernel. Belongs to one thread at a time, as devices do.
 */
#ifndef WEFT_TRAINING_TENSOR_PROFILED_H
#define WEFT_TRAINING_TENSOR_PROFILED_H

#include "training/tensor/device.h"

/** The functions of struct device that compute or move. */
enum profiled_kernel {
    PROFILED_WRITE,
    PROFILED_READ,
    PROFILED_COPY,
    PROFILED_FILL,
    PROFILED_ADD,
    PROFILED_ADD_BRANCH,
    PROFILED_DROPOUT,
    PROFILED_DROPOUT_NARROW,
    PROFILED_DROPOUT_ADD_BRANCH,
    PROFILED_NARROW,
    PROFILED_WIDEN,
    PROFILED_SCALE,
    PROFILED_GELU_FORWARD,
    PROFILED_ADAMW,
    PROFILED_ADAMW_DIRECTION,
    PROFILED_SGD,
    PROFILED_COMBINE,
    PROFILED_SUM_OF_SQUARES,
    PROFILED_COLUMN_SUMS,
    PROFILED_MATMUL,
    PROFILED_LAYER_NORM_FORWARD,
    PROFILED_LAYER_NORM_BACKWARD,
    PROFILED_RMS_NORM_FORWARD,
    PROFILED_RMS_NORM_BACKWARD,
    PROFILED_GELU_BACKWARD,
    PROFILED_SWIGLU_FORWARD,
    PROFILED_SWIGLU_BACKWARD,
    PROFILED_ROTARY,
    PROFILED_ATTENTION_FORWARD,
    PROFILED_ATTENTION_BACKWARD,
    PROFILED_EMBEDDING_FORWARD,
    PROFILED_EMBEDDING_BACKWARD,
    PROFILED_CROSS_ENTROPY,
    PROFILED_KERNELS,
};

/** "layer norm, backward". */
extern const char *const profiled_names[PROFILED_KERNELS];

/** Of one kernel, since the device was opened. */
struct profiled_count {
    uint64_t calls;
    double seconds;
    double flops; /**< of matrix products and attention, as many as were computed: above a causal diagonal none are */
    double bytes; /**< read and written, each array once: what a cache that holds nothing would have to move */
};

/** Put a measuring device around *device, which it owns from then on: closing it closes both. */
weft_status profiled_wrap(struct device **device, struct error *error);

/** The counts of a device that profiled_wrap() has made: PROFILED_KERNELS of them, which grow. */
const struct profiled_count *profiled_counts(const struct device *device);

#endif
