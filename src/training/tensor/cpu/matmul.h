/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products through oneDNN, of f32 or of bf16 with sums in f32 (for what it cannot multiply, see
 * training/tensor/cpu/matmul_cast.h). Creating a primitive compiles code (milliseconds), so one is cached for each shape. A
 * model has few shapes, so entries are never evicted. Belongs to one thread at a time. Two of these share only oneDNN's
 * kernel set, which is per process and fixed by the first product.
 */
#ifndef WEFT_TRAINING_TENSOR_CPU_MATMUL_H
#define WEFT_TRAINING_TENSOR_CPU_MATMUL_H

#include "training/tensor/device.h"

struct cpu_matmuls;

/** Products of `set`; KERNEL_SETS: of the set that oneDNN uses in this process. */
weft_status cpu_matmuls_open(weft_type activations, enum kernel_set set, int threads, struct cpu_matmuls **matmuls,
                             struct error *error);
void cpu_matmuls_close(struct cpu_matmuls *matmuls);

/** As device->matmul, the same bits on any number of threads; the caller's omp_get_max_threads() must be that of
 * cpu_matmuls_open(). */
weft_status cpu_matmuls_run(struct cpu_matmuls *matmuls, const struct matmul *arguments, struct error *error);

#endif
