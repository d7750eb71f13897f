/* SPDX-License-Identifier: Apache-2.0 */
/** Depthwise convolutions, for training/tensor/cpu/convolution.c. The arguments are those of the functions of struct device. */
#ifndef WEFT_TRAINING_TENSOR_CPU_CONVOLUTION_H
#define WEFT_TRAINING_TENSOR_CPU_CONVOLUTION_H

#include "training/tensor/cpu/cpu.h"

void depthwise_run_forward(struct cpu *cpu, const struct convolution *shape, const void *x,
                           const struct batch_norm *before, const void *weights, void *out,
                           const struct batch_norm *after);

void depthwise_run_backward_input(struct cpu *cpu, const struct convolution *shape, const void *weights,
                                  const void *gradient, const void *out, const struct batch_norm *after, const void *x,
                                  const struct batch_norm *before, void *gradient_x);

void depthwise_run_backward_weights(struct cpu *cpu, const struct convolution *shape, const void *x,
                                    const struct batch_norm *before, const void *gradient, const void *out,
                                    const struct batch_norm *after, void *gradient_weights);

#endif
