/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/kernels/kernels.h"

#if defined(__x86_64__)

static const struct kernels *const tables[] = {&kernels_baseline, &kernels_avx2, &kernels_avx512};

const struct kernels *const *kernels_supported(size_t *count)
{
    __builtin_cpu_init();
    *count = 1;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        *count = 2;
    if (*count == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        *count = 3;
    return tables;
}

#else

static const struct kernels *const tables[] = {&kernels_baseline};

const struct kernels *const *kernels_supported(size_t *count)
{
    *count = 1;
    return tables;
}

#endif
