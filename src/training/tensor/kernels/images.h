/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The fast kernels for images; training/tensor/images.h has the formulas, training/tensor/kernels/kernels.h what all kernels have
 * in common.
 *
 * A convolution is a matrix product: a row of the left matrix is what one position of the result is made of, its *taps* one
 * after another. It is gathered tile by tile into scratch memory that stays in the cache, normalized on the way
 * (struct image_source). Where neighboring rows share most of their source, its lines are copied once instead, and the taps of
 * a row are places in them. The tile of the product goes from the cache to the result, and sums over its rows are gathered
 * (struct image_sink). Depthwise convolutions go line by line instead.
 */
#ifndef WEFT_TRAINING_TENSOR_KERNELS_IMAGES_H
#define WEFT_TRAINING_TENSOR_KERNELS_IMAGES_H

#include "training/tensor/images.h"

#include <stddef.h>
#include <stdint.h>

#define IMAGE_TILE 96 /**< most rows of a tile */
#define IMAGE_ROOM 16 /**< floats after the last row of scratch memory: rows are read a register at a time */
#define TAPS_MOST  (CONVOLUTION_KERNEL_MOST * CONVOLUTION_KERNEL_MOST)

enum source_mode {
    SOURCE_PLAIN,      /**< x */
    SOURCE_NORMALIZED, /**< rectifier(factor x + offset) */
    SOURCE_SLOPE,      /**< factor x + of_y y + offset: the gradient of y from the slope x */
};

/** An array of activations that is read, `channels` in a row. */
struct image_source {
    enum source_mode mode;
    float lower, upper; /**< the rectifier's bounds */
    size_t channels;
    const void *x;
    const void *y;        /**< SOURCE_SLOPE */
    const float *factors; /**< of each channel */
    const float *offsets;
    const float *of_y;
};

/** What is summed over the rows of a result. */
enum sink_mode {
    SINK_PLAIN,
    SINK_STATISTICS, /**< x - pivot, and its square */
    SINK_SLOPE,      /**< the slope d of a batch norm of y, and d n */
};

/** An array of activations that is written, `channels` in a row. */
struct image_sink {
    enum sink_mode mode;
    bool streams; /**< out is larger than the caches */
    float lower, upper;
    size_t channels;
    void *out;
    const void *y;        /**< SINK_SLOPE: d is out where lower < factor y + offset < upper, else 0 */
    const float *factors; /**< of each channel */
    const float *offsets;
    const float *means;
    const float *reciprocals;
};

/** Sums over rows for each channel; `pivots` is the first row that is summed. */
struct image_sums {
    bool begun;
    float *first, *second;
    float *pivots;
};

/** The rows of a product: positions of a grid, and the taps that each is made of. */
struct gather {
    size_t height, width; /**< of the grid of an image */
    size_t step;          /**< positions of the source from one row to the next */
    size_t source_height, source_width;
    size_t taps;
    bool runs;                          /**< taps of one line follow each other */
    int16_t y[TAPS_MOST], x[TAPS_MOST]; /**< of a tap, added to step times the row's */
};

/** Where rows of the grid go: row (y, x) of it is (first_y + y step, first_x + x step) of an image of the result. */
struct scatter {
    size_t height, width;
    size_t step, first_y, first_x;
};

/** The weights as the right matrix: element (tap t and channel i, column j) is weights[j column + i channel + places[t]]. */
struct packing {
    size_t columns, channels, taps;
    size_t column, channel;
    uint8_t places[TAPS_MOST];
};

/** A depthwise convolution of lines of `width` positions to lines of `out_width`. */
struct depthwise {
    size_t height, width, channels;
    size_t out_height, out_width;
    size_t kernel, stride, padding;
    const float *weights; /**< kernel^2 x channels */
};

struct image_kernels {
    size_t panel; /**< columns of the right matrix in a panel; the last one is filled up with zeros */

    /** Write panels `first` to first + count - 1: taps x channels rows of `panel` floats each. */
    void (*pack)(const struct packing *packing, size_t first, size_t count, const void *weights, float *packed);
    /** Rows of a tile of product_rows() for results of so many columns. */
    size_t (*tile_rows)(size_t columns);
    /** Floats of scratch for a tile of product_rows(), or of product_weights(). */
    size_t (*tile_scratch)(const struct gather *gather, size_t channels, size_t columns);
    /** Rows first to first + rows - 1, at most tile_rows(). */
    void (*product_rows)(const struct gather *gather, const struct image_source *source, const float *packed,
                         size_t first, size_t rows, const struct scatter *scatter, const struct image_sink *sink,
                         struct image_sums *sums, float *scratch);
    /** Columns of the left matrix in a block of the gradient of weights. */
    size_t block;
    /** Add products of `x`, columns first_column to first_column + columns - 1 of the gathered matrix, with `gradient` over
     * these rows, at most IMAGE_TILE, to `sums`: columns x panels of gradient's channels. */
    void (*product_weights)(const struct gather *gather, const struct image_source *x,
                            const struct image_source *gradient, size_t first_column, size_t columns, size_t first,
                            size_t rows, float *sums, float *scratch);

    /** Channels of a block. */
    size_t (*depthwise_block)(const struct depthwise *shape);
    size_t (*depthwise_scratch)(const struct depthwise *shape);
    /** `count` channels of one image. */
    void (*depthwise_forward)(const struct depthwise *shape, const struct image_source *source, size_t image,
                              size_t first, size_t count, const struct image_sink *sink, struct image_sums *sums,
                              float *scratch);
    void (*depthwise_backward)(const struct depthwise *shape, const struct image_source *gradient, size_t image,
                               size_t first, size_t count, const struct image_sink *sink, struct image_sums *sums,
                               float *scratch);
    /** Add to `sums`: kernel^2 x channels. */
    void (*depthwise_weights)(const struct depthwise *shape, const struct image_source *x,
                              const struct image_source *gradient, size_t image, size_t first, size_t count,
                              float *sums, float *scratch);

    /** Rows first to first + rows - 1. out = rectifier(factor y + offset + x), with x NULL: 0. */
    void (*normalize)(const struct image_source *y, size_t first, size_t rows, const float *x, float *out);
    /** gradient = slope in place, and to the sink's out; sums as SINK_SLOPE. */
    void (*normalize_backward)(const struct image_sink *sink, size_t first, size_t rows, const float *x,
                               float *gradient, struct image_sums *sums);
    /** Lines first to first + count - 1 of out. */
    void (*max_pool_forward)(const struct max_pool *shape, const struct image_source *source, size_t first,
                             size_t count, float *out, uint8_t *places);
    /** One image. `scratch`: height x width x channels of the pool's input + IMAGE_ROOM floats. */
    void (*max_pool_backward)(const struct max_pool *shape, size_t image, const float *gradient, const uint8_t *places,
                              const struct image_sink *sink, struct image_sums *sums, float *scratch);
    /** One image. */
    void (*average_pool_forward)(const struct average_pool *shape, size_t image, const struct image_source *source,
                                 float *out);
    void (*average_pool_backward)(const struct average_pool *shape, size_t image, const float *gradient,
                                  const struct image_sink *sink, struct image_sums *sums, float *scratch);
    void (*mixed_cross_entropy)(size_t rows, size_t classes, size_t stride, const int32_t *targets, const float *shares,
                                float smoothing, float scale, void *logits, double *losses, double *right);
};

#endif
