/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products of activations that oneDNN cannot multiply (f16, and bf16 without AVX-512): by products of f32.
 *
 * A product is cut into blocks by its shape alone. The operands of a block are cast to f32 in scratch memory (20 MiB at
 * most), and its results are rounded once, after the last block of the inner sum. It takes the time of the f32 product and
 * of the casts: each element of a and b is cast once for every 1024 columns or rows of c.
 */
#ifndef WEFT_TRAINING_TENSOR_CPU_MATMUL_CAST_H
#define WEFT_TRAINING_TENSOR_CPU_MATMUL_CAST_H

#include "training/tensor/cpu/cpu.h"

/** As device->matmul, the same bits on any number of threads. A failure is in cpu->failure. */
void cpu_matmul_cast(struct cpu *cpu, const struct matmul *arguments);

#endif
