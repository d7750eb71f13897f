/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/kernels/kernels.h"

#if defined(__x86_64__)

static const struct kernels *const f32[] = {&kernels_baseline, &kernels_avx2, &kernels_avx512};
static const struct kernels *const bf16[] = {&kernels_baseline_bf16, &kernels_avx2_bf16, &kernels_avx512_bf16};

#else

static const struct kernels *const f32[] = {&kernels_baseline};
static const struct kernels *const bf16[] = {&kernels_baseline_bf16};

#endif

/* A set without a table of its own uses the one of the set below. */
static size_t tables_up_to(weft_type activations, enum kernel_set set)
{
    const enum kernel_set third = activations == WEFT_BF16 ? KERNEL_SET_AVX512BF16 : KERNEL_SET_AVX512;
    return set >= third ? 3 : set >= KERNEL_SET_AVX2 ? 2 : 1;
}

const struct kernels *const *kernels_supported(weft_type activations, size_t *count)
{
    *count = tables_up_to(activations, kernel_set_best(activations));
    return activations == WEFT_BF16 ? bf16 : f32;
}

const struct kernels *kernels_of(weft_type activations, enum kernel_set set)
{
    return (activations == WEFT_BF16 ? bf16 : f32)[tables_up_to(activations, set) - 1];
}
