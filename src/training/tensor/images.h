/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shapes of the kernels for image networks (training/tensor/device.h).
 *
 * An image is height x width positions of so many channels, row-major: NHWC, as the rows of a matrix.
 *
 * ## Batch norm between convolutions
 *
 * A network of convolutions is limited by memory: what is between two of them, a batch norm and a rectifier, would read
 * and write every array several times. So it has no arrays of its own here. A convolution writes its plain sums y and, while
 * it does, gathers the statistics of the batch norm that follows. Whatever reads the batch norm's output has y and struct
 * batch_norm, and normalizes while it reads. In the backward pass, what writes the gradient of the batch norm's output
 * multiplies it by the rectifier's slope and gathers the gradients of gain and bias; what reads the gradient of y
 * computes it from that. With y of `rows` rows, for each channel:
 *
 *     n   = (y - mean) reciprocal                  reciprocal = 1 / sqrt(variance + epsilon)
 *     out = rectifier(n gain + bias)
 *     d   = gradient_out rectifier'(n gain + bias)             the *slope*: the gradient of n gain + bias
 *     gradient_bias = sum of d                     gradient_gain = sum of d n
 *     gradient_y = gain reciprocal (d - gradient_bias / rows - n gradient_gain / rows)
 *
 * (Ioffe and Szegedy 2015, "Batch normalization"). Frozen, mean and variance are constants, and gradient_y = gain reciprocal d.
 */
#ifndef WEFT_TRAINING_TENSOR_IMAGES_H
#define WEFT_TRAINING_TENSOR_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

/** min(max(x, 0), 6), for one. The slope is 1 strictly between the bounds and 0 elsewhere. */
enum rectifier {
    RECTIFIER_NONE,
    RECTIFIER_RELU,
    RECTIFIER_RELU6,
};

/** A batch norm and the rectifier after it. Arrays hold `channels` elements of the device's `type`. */
struct batch_norm {
    size_t channels;
    double epsilon;
    enum rectifier rectifier;
    bool frozen; /**< means and reciprocals are given; otherwise the kernel that writes y sets them */
    const void *gain;
    const void *bias;
    void *means;
    void
        *variances; /**< set with the means, for running statistics: sum of (y - mean)^2 / (rows - 1); NULL: not kept */
    void *reciprocals;   /**< from sum of (y - mean)^2 / rows; of a frozen one: batch_norm_reciprocals() */
    void *gradient_gain; /**< set by the kernel that writes d; read with d */
    void *gradient_bias;
};

/** The largest kernel. */
#define CONVOLUTION_KERNEL_MOST 16

/**
 * A convolution (a correlation, as everywhere) of square kernels without bias:
 *
 *     out[b][y][x][o] = sum over i, r, s of x[b][y stride + r - padding][x stride + s - padding][i] weights[o][i][r][s]
 *
 * where x is 0 outside of the image. `depthwise`: inputs == outputs, and channel o of out is made of channel o of x only, by
 * weights[o][0][r][s].
 */
struct convolution {
    size_t batch;
    size_t height;  /**< of x */
    size_t width;   /**< of x */
    size_t inputs;  /**< channels of x */
    size_t outputs; /**< channels of out */
    size_t kernel;  /**< 1 to CONVOLUTION_KERNEL_MOST */
    size_t stride;
    size_t padding; /**< on each side; less than kernel */
    bool depthwise;
};

/** Rows or columns of the output of a window that moves over `length` rows or columns. */
static inline size_t window_count(size_t length, size_t kernel, size_t stride, size_t padding)
{
    return length + 2 * padding < kernel ? 0 : (length + 2 * padding - kernel) / stride + 1;
}

static inline size_t convolution_height(const struct convolution *shape)
{
    return window_count(shape->height, shape->kernel, shape->stride, shape->padding);
}

static inline size_t convolution_width(const struct convolution *shape)
{
    return window_count(shape->width, shape->kernel, shape->stride, shape->padding);
}

/** Positions of all images of x. */
static inline size_t convolution_rows_in(const struct convolution *shape)
{
    return shape->batch * shape->height * shape->width;
}

/** Positions of all images of out. */
static inline size_t convolution_rows_out(const struct convolution *shape)
{
    return shape->batch * convolution_height(shape) * convolution_width(shape);
}

/** Channels of x that a channel of out is made of. */
static inline size_t convolution_group(const struct convolution *shape)
{
    return shape->depthwise ? 1 : shape->inputs;
}

/** Elements of the weights. */
static inline size_t convolution_weights(const struct convolution *shape)
{
    return shape->outputs * convolution_group(shape) * shape->kernel * shape->kernel;
}

/** The largest of each window, which has at least one position within the image. */
struct max_pool {
    size_t batch;
    size_t height; /**< of x */
    size_t width;
    size_t channels;
    size_t kernel; /**< 1 to CONVOLUTION_KERNEL_MOST */
    size_t stride;
    size_t padding; /**< on each side; less than kernel; never the largest */
};

/** The mean over the positions of each image. */
struct average_pool {
    size_t batch;
    size_t positions; /**< of an image */
    size_t channels;
};

#endif
