/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernel sets: the instruction sets that kernels are compiled for, each one a superset of the one below.
 *
 * The set decides bits. Wider registers divide a sum into more parts, a fused multiply-add rounds once instead of
 * twice, and oneDNN cuts products differently for each set. Ranks that need the same bits must therefore use the
 * same set, which may be lower than that of some processors: see training/parallel/agreement.h.
 */
#ifndef WEFT_TRAINING_TENSOR_KERNEL_SET_H
#define WEFT_TRAINING_TENSOR_KERNEL_SET_H

#include "base/error.h"

enum kernel_set {
    KERNEL_SET_BASELINE, /**< the compiler's default target; x86-64: SSE2, and SSE4.1 in oneDNN */
    KERNEL_SET_AVX2,     /**< with fused multiply-add, and F16C, which all processors with AVX2 have */
    KERNEL_SET_AVX512,   /**< F, BW, CD, DQ and VL; the highest that f32 and f16 use; the first with products of bf16 */
    KERNEL_SET_AVX512BF16, /**< with VNNI, and fast products of bf16 */
    KERNEL_SET_AMX,        /**< with tiles of bf16 */
    KERNEL_SETS
};

/** "baseline", "avx2", "avx512", "avx512bf16", "amx"; ends with NULL. */
extern const char *const kernel_set_names[KERNEL_SETS + 1];

/** The highest set that kernels for `activations` (WEFT_F32, WEFT_BF16 or WEFT_F16) use. */
static inline enum kernel_set kernel_set_highest(weft_type activations)
{
    return activations == WEFT_BF16 ? KERNEL_SET_AMX : KERNEL_SET_AVX512;
}

/** Whether matrix products of `activations` are those of f32, with operands that are cast: no set multiplies f16, and those
 * below AVX-512 do not multiply bf16. */
static inline bool kernel_set_casts(weft_type activations, enum kernel_set set)
{
    return activations == WEFT_F16 || (activations == WEFT_BF16 && set < KERNEL_SET_AVX512);
}

/**
 * The highest set that this process can use for `activations`: its processor's, or a lower one set by oneDNN's variable
 * ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA). Weft's own kernels respect it too, so that one variable emulates an older
 * processor.
 */
enum kernel_set kernel_set_best(weft_type activations);

/**
 * Limit oneDNN to `set` for the rest of the process. It accepts a limit once, and only before its first product.
 * Errors: STATE if it uses another set.
 */
weft_status kernel_set_limit_library(weft_type activations, enum kernel_set set, struct error *error);

#endif
