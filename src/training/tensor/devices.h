/* SPDX-License-Identifier: Apache-2.0 */
/** The devices that are built in, for device_open() only. Arguments as there; `threads` is within bounds. */
#ifndef WEFT_TRAINING_TENSOR_DEVICES_H
#define WEFT_TRAINING_TENSOR_DEVICES_H

#include "training/tensor/device.h"

#define DEVICE_THREADS_MOST 1024

struct kernels;

/** The processor with one of the tables of kernels_supported(), and oneDNN's own choice of kernels. For comparing
 * tables. */
weft_status cpu_open_with(const struct kernels *kernels, int threads, struct device **device, struct error *error);

weft_status cpu_open(enum kernel_set set, int threads, struct device **device, struct error *error);
weft_status cpu_bf16_open(enum kernel_set set, int threads, struct device **device, struct error *error);
weft_status cpu_f16_open(enum kernel_set set, int threads, struct device **device, struct error *error);
/** Bytes of scratch in which a product's operands are cast to f32 (training/tensor/cpu/matmul_cast.h). */
size_t cpu_cast_bytes(size_t rows, size_t columns, size_t inner);

weft_status reference_f32_open(enum kernel_set set, int threads, struct device **device, struct error *error);
weft_status reference_f64_open(enum kernel_set set, int threads, struct device **device, struct error *error);

#endif
