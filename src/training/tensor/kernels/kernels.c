/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled for each instruction set and type of activations, with KERNELS the table's symbol and KERNELS_NAME the
 * instruction set's name (meson.build).
 * Everything else is static, so that no code for one instruction set can be linked in place of another's.
 */
#include "training/tensor/kernels/kernels.h"
#include "training/tensor/class_sums.h"
#include "training/tensor/kernels/internal/activation.h"
#include "training/tensor/kernels/internal/vector.h"

#include <math.h>

#include "training/tensor/kernels/internal/dropout.h"
#include "training/tensor/kernels/internal/elements.h"
#include "training/tensor/kernels/internal/rows.h"

#include "training/tensor/kernels/internal/product.h"

#include "training/tensor/kernels/internal/attention.h"

#include "training/tensor/kernels/internal/image_rows.h"

#include "training/tensor/kernels/internal/gather.h"

#include "training/tensor/kernels/internal/convolution.h"

#include "training/tensor/kernels/internal/depthwise.h"

#include "training/tensor/kernels/internal/pooling.h"

const struct kernels KERNELS = {
    .name = KERNELS_NAME,
    .activations = ACTIVATION_TYPE,
    .multiply_adds = multiply_adds,
    .fill = fill,
    .add = add,
    .add_branch = add_branch,
    .dropout = dropout_in_place,
    .dropout_to_activations = dropout_to_activations,
    .dropout_add_branch = dropout_add_branch,
    .to_activations = to_activations,
    .from_activations = from_activations,
    .scale = scale,
    .gelu_forward = gelu_forward,
    .gelu_erf_forward = gelu_erf_forward,
    .tanh_forward = tanh_forward,
    .tanh_backward = tanh_backward,
    .adamw = adamw,
    .adamw_direction = adamw_direction,
    .sgd = sgd,
    .combine = combine,
    .sum_of_squares = sum_of_squares,
    .column_sums = column_sums,
    .layer_norm_forward = layer_norm_forward,
    .layer_norm_backward = layer_norm_backward,
    .stream_norm_forward = stream_norm_forward,
    .stream_norm_backward = stream_norm_backward,
    .rms_norm_forward = rms_norm_forward,
    .rms_norm_backward = rms_norm_backward,
    .gelu_backward = gelu_backward,
    .gelu_erf_backward = gelu_erf_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .rotary = rotary,
    .cross_entropy = cross_entropy,
    .class_sums = class_sums,
    .class_gradient = class_gradient,
    .attention_scratch = attention_scratch,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .images =
        {
            .panel = PANEL,
            .pack = convolution_pack,
            .tile_rows = convolution_tile_rows,
            .tile_scratch = convolution_tile_scratch,
            .product_rows = convolution_product_rows,
            .block = BLOCK,
            .product_weights = convolution_product_weights,
            .depthwise_block = depthwise_block,
            .depthwise_scratch = depthwise_scratch,
            .depthwise_forward = depthwise_forward,
            .depthwise_backward = depthwise_backward,
            .depthwise_weights = depthwise_weights,
            .normalize = normalize,
            .normalize_backward = normalize_backward,
            .max_pool_forward = max_pool_forward,
            .max_pool_backward = max_pool_backward,
            .average_pool_forward = average_pool_forward,
            .average_pool_backward = average_pool_backward,
            .mixed_cross_entropy = mixed_cross_entropy,
        },
};
