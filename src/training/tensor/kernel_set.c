/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/kernel_set.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <strings.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

const char *const kernel_set_names[KERNEL_SETS + 1] = {"baseline", "avx2", "avx512", "avx512bf16", "amx", NULL};

/* oneDNN's names of limits. Other values mean no limit, as in oneDNN. */
static const struct {
    const char *name;
    enum kernel_set set;
} limits[] = {
    {"SSE41", KERNEL_SET_BASELINE},
    {"AVX", KERNEL_SET_BASELINE},
    {"AVX2", KERNEL_SET_AVX2},
    {"AVX2_VNNI", KERNEL_SET_AVX2},
    {"AVX512_CORE", KERNEL_SET_AVX512},
    {"AVX512_CORE_VNNI", KERNEL_SET_AVX512},
    {"AVX512_CORE_BF16", KERNEL_SET_AVX512BF16},
};

static enum kernel_set limit_of_environment(void)
{
    const char *value = getenv("ONEDNN_MAX_CPU_ISA");
    if (!value || !*value)
        value = getenv("DNNL_MAX_CPU_ISA");
    for (size_t i = 0; value && i < ARRAY_SIZE(limits); i++)
        if (strcasecmp(value, limits[i].name) == 0)
            return limits[i].set;
    return KERNEL_SET_AMX;
}

#if defined(__x86_64__)

#define TILES_OF_INT8_AND_BF16 (1u << 25 | 1u << 24 | 1u << 22) /* of CPUID leaf 7, in EDX */
#define TILE_DATA              18                               /* a state component that a process must request */
#define ASK_FOR_COMPONENT      0x1023                           /* ARCH_REQ_XCOMP_PERM */

/* Linux lets a process use tiles only on request; oneDNN makes the same request. */
static bool has_tiles(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & TILES_OF_INT8_AND_BF16) == TILES_OF_INT8_AND_BF16 &&
           syscall(SYS_arch_prctl, ASK_FOR_COMPONENT, TILE_DATA) == 0;
}

static enum kernel_set set_of_processor(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return KERNEL_SET_BASELINE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return KERNEL_SET_AVX2;
    if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512bf16"))
        return KERNEL_SET_AVX512;
    return has_tiles() ? KERNEL_SET_AMX : KERNEL_SET_AVX512BF16;
}

#else

static enum kernel_set set_of_processor(void)
{
    return KERNEL_SET_BASELINE;
}

#endif

enum kernel_set kernel_set_best(weft_type activations)
{
    const enum kernel_set processor = set_of_processor(), limit = limit_of_environment(),
                          highest = kernel_set_highest(activations), best = processor < limit ? processor : limit;
    return best < highest ? best : highest;
}

/* ---- oneDNN ---- */

#if defined(__x86_64__)

/* The set that oneDNN uses in this process, ignoring sets that f32 does not use. */
static enum kernel_set set_of_library(weft_type activations)
{
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned isas[] = {[KERNEL_SET_AVX2] = dnnl_cpu_isa_avx2,
                             [KERNEL_SET_AVX512] = dnnl_cpu_isa_avx512_core,
                             [KERNEL_SET_AVX512BF16] = dnnl_cpu_isa_avx512_core_bf16,
                             [KERNEL_SET_AMX] = dnnl_cpu_isa_avx512_core_amx};
    enum kernel_set set = kernel_set_highest(activations); /* a set's bits include those of lower sets */
    while (set > KERNEL_SET_BASELINE && (isa & isas[set]) != isas[set])
        set--;
    return set;
}

weft_status kernel_set_limit_library(weft_type activations, enum kernel_set set, struct error *error)
{
    static const dnnl_cpu_isa_t isas[] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core,
                                          dnnl_cpu_isa_avx512_core_bf16};
    if (set < kernel_set_highest(activations))
        (void)dnnl_set_max_cpu_isa(isas[set]); /* if it is too late, the next line detects it */
    const enum kernel_set used = set_of_library(activations);
    if (used == set)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_STATE,
                     "oneDNN uses the kernels %s in this process, but %s were chosen; start the process with "
                     "ONEDNN_MAX_CPU_ISA unset, or choose these for all devices of the process",
                     kernel_set_names[used], kernel_set_names[set]);
}

#else

weft_status kernel_set_limit_library(weft_type activations, enum kernel_set set, struct error *error)
{
    return WEFT_OK;
}

#endif
