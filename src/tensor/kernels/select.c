/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/kernels/kernels.h"

#if defined(__x86_64__)

static const struct kernels *const f32[] = {&kernels_baseline, &kernels_avx2, &kernels_avx512};
static const struct kernels *const bf16[] = {&kernels_baseline_bf16, &kernels_avx2_bf16, &kernels_avx512_bf16};

const struct kernels *const *kernels_supported(weft_type activations, size_t *count)
{
    __builtin_cpu_init();
    *count = 1;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        *count = 2;
    if (*count == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        *count = activations != WEFT_BF16 || __builtin_cpu_supports("avx512bf16") ? 3 : 2;
    return activations == WEFT_BF16 ? bf16 : f32;
}

#else

static const struct kernels *const f32[] = {&kernels_baseline};
static const struct kernels *const bf16[] = {&kernels_baseline_bf16};

const struct kernels *const *kernels_supported(weft_type activations, size_t *count)
{
    *count = 1;
    return activations == WEFT_BF16 ? bf16 : f32;
}

#endif
