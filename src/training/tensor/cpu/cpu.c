/* SPDX-License-Identifier: Apache-2.0 */
/* The processor as a device: choosing kernels, opening, memory. */
#include "training/tensor/cpu/cpu.h"

#include "base/clock.h"
#include "base/file/address_space.h"
#include "training/tensor/cpu/matmul.h"
#include "training/tensor/devices.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define STACK_USUAL ((uint64_t)8 << 20) /* of a thread, where there is no limit */
#define STACK_GUARD ((uint64_t)1 << 20) /* its guard page, and what OpenMP keeps for it */

/* ---- choosing kernels ---- */

#if defined(__x86_64__)

static const struct kernels *const f32_kernels[] = {&kernels_baseline, &kernels_avx2, &kernels_avx512};
static const struct kernels *const bf16_kernels[] = {&kernels_baseline_bf16, &kernels_avx2_bf16, &kernels_avx512_bf16};
static const struct kernels *const f16_kernels[] = {&kernels_baseline_f16, &kernels_avx2_f16, &kernels_avx512_f16};

#else

static const struct kernels *const f32_kernels[] = {&kernels_baseline};
static const struct kernels *const bf16_kernels[] = {&kernels_baseline_bf16};
static const struct kernels *const f16_kernels[] = {&kernels_baseline_f16};

#endif

static const struct kernels *const *tables_of(weft_type activations)
{
    return activations == WEFT_BF16 ? bf16_kernels : activations == WEFT_F16 ? f16_kernels : f32_kernels;
}

/* The index of a set's table; a set without its own uses the one below. */
static size_t table_of(weft_type activations, enum kernel_set set)
{
    const enum kernel_set third = activations == WEFT_BF16 ? KERNEL_SET_AVX512BF16 : KERNEL_SET_AVX512;
    return set >= third ? 2 : set >= KERNEL_SET_AVX2 ? 1 : 0;
}

const struct kernels *const *kernels_supported(weft_type activations, size_t *count)
{
    *count = table_of(activations, kernel_set_best(activations)) + 1;
    return tables_of(activations);
}

static const struct kernels *kernels_of(weft_type activations, enum kernel_set set)
{
    return tables_of(activations)[table_of(activations, set)];
}

/* ---- opening, closing, memory ---- */

static void cpu_close(struct device *device)
{
    struct cpu *cpu = cpu_of(device);
    cpu_matmuls_close(cpu->matmuls);
    free(cpu->scratch);
    free(cpu->turns.table);
    free(cpu);
}

#define PEAK_ROUNDS 4000000 /* some ten milliseconds, so that the scheduler has spread the threads over cores */

#define PEAK_MATRIX 1024 /* rows and columns: large enough for full speed, small enough for the cache */

/* Operations per second of a matrix product, which may use units that no kernel of ours does (AMX); 0 without memory. */
static double matrix_peak(struct device *device)
{
    const size_t count = (size_t)PEAK_MATRIX * PEAK_MATRIX, bytes = count * sizeof(float);
    char *memory = device->allocate(device, 3 * bytes, "the measurement of a peak", NULL);
    double best = 0;
    if (!memory)
        return 0;
    device->fill(device, 3 * count, 0, memory);
    const struct matmul product = {.rows = PEAK_MATRIX,
                                   .columns = PEAK_MATRIX,
                                   .inner = PEAK_MATRIX,
                                   .a = memory,
                                   .b = memory + bytes,
                                   .c = memory + 2 * bytes};
    for (int attempt = 0; attempt < 8; attempt++) {
        const uint64_t begin = clock_now();
        device->matmul(device, &product);
        const double rate = 2.0 * (double)count * PEAK_MATRIX / ((double)(clock_now() - begin) * 1e-9);
        best = rate > best ? rate : best;
    }
    device->release(device, memory);
    return best;
}

static double cpu_peak(struct device *device)
{
    struct cpu *cpu = cpu_of(device);
    double best = matrix_peak(device);
    for (int attempt = 0; attempt < 8; attempt++) {
        double rate = 0; /* by CPU time, as other processes may use the cores too */
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) reduction(+ : rate)
        for (int i = 0; i < device->threads; i++) {
            const uint64_t begin = clock_thread_cpu();
            const double operations = cpu->kernels->multiply_adds(PEAK_ROUNDS);
            rate += operations / ((double)(clock_thread_cpu() - begin) * 1e-9);
        }
        best = rate > best ? rate : best;
    }
    return best;
}

static weft_status cpu_finish(struct device *device, struct error *error)
{
    struct cpu *cpu = cpu_of(device);
    weft_status status = cpu->failure.status;
    if (status != WEFT_OK)
        error_set(error, status, "%s", cpu->failure.text);
    error_clear(&cpu->failure);
    return status;
}

#define HUGE_PAGE ((uintptr_t)2 << 20)

/* Request huge pages within arrays: products have fewer TLB misses, and the first use is faster. */
static void ask_for_huge_pages(char *memory, size_t bytes)
{
    const uintptr_t first = ((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE,
                    last = ((uintptr_t)memory + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (first < last)
        madvise(memory + (first - (uintptr_t)memory), last - first, MADV_HUGEPAGE);
}

/* Touch the memory here, because page faults on first use would otherwise slow down training. */
static void *cpu_allocate(struct device *device, size_t bytes, const char *what, struct error *error)
{
    size_t rounded = (bytes + 63) / 64 * 64 + 64;
    void *memory = bytes < SIZE_MAX - 128 ? aligned_alloc(64, rounded) : NULL;
    if (!memory) {
        error_memory(error, bytes, what);
        return NULL;
    }
    ask_for_huge_pages(memory, rounded);
    return memset(memory, 0, rounded);
}

static void cpu_release(struct device *device, void *memory)
{
    free(memory);
}

static void cpu_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

#define SCRATCH_AHEAD 65536 /* floats */

float *scratch_reserve(struct cpu *cpu, int parts, size_t floats, size_t *stride)
{
    *stride = (floats + 31) / 16 * 16;
    size_t all = *stride * (size_t)parts;
    if (all > cpu->scratch_floats) {
        all += all / 2 < SCRATCH_AHEAD ? all / 2 : SCRATCH_AHEAD; /* sampling needs a little more each time */
        all = (all + 15) / 16 * 16;
        float *scratch = aligned_alloc(64, all * sizeof *scratch);
        if (!scratch) {
            error_memory(&cpu->failure, all * sizeof *scratch, "the scratch space of a kernel");
            return NULL;
        }
        free(cpu->scratch);
        cpu->scratch = scratch;
        cpu->scratch_floats = all;
    }
    return cpu->scratch;
}

/* ---- opening ---- */

/* OpenMP ends the process where there is no room for a thread's stack. */
static weft_status check_stacks(int threads, struct error *error)
{
    struct rlimit stack;
    char what[64];
    uint64_t each = STACK_USUAL;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY)
        each = stack.rlim_cur;
    snprintf(what, sizeof what, "a device with %d threads", threads);
    return address_space_check((uint64_t)(threads - 1) * (each + STACK_GUARD), what, error);
}

/* oneDNN silently skips parts of a product if OpenMP provides fewer threads than announced. */
static weft_status check_threads(int threads, struct error *error)
{
    int given = 1, dynamic = omp_get_dynamic();
    if (threads == 1)
        return WEFT_OK;
    weft_status status = check_stacks(threads, error);
    if (status != WEFT_OK)
        return status;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(threads)
#pragma omp single
    given = omp_get_num_threads();
    omp_set_dynamic(dynamic);
    if (given == threads)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "a device was to have %d threads, but OpenMP gives %d; unset OMP_THREAD_LIMIT or ask for %d",
                     threads, given, given);
}

static weft_status open_table(const struct kernels *kernels, enum kernel_set set, int threads, struct device **device,
                              struct error *error)
{
    weft_status status = check_threads(threads, error);
    if (status != WEFT_OK)
        return status;
    struct cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return error_memory(error, sizeof *cpu, "a device");
    cpu->kernels = kernels;
    cpu->casts =
        kernel_set_casts(kernels->activations, set < KERNEL_SETS ? set : kernel_set_best(kernels->activations));
    cpu->device = (struct device){
        .name = device_cpu_name(kernels->activations),
        .type = WEFT_F32,
        .activations = kernels->activations,
        .threads = threads,
        .kernels = set < KERNEL_SETS ? kernel_set_names[set] : kernels->name,
        .peak = cpu_peak,
        .close = cpu_close,
        .finish = cpu_finish,
        .allocate = cpu_allocate,
        .release = cpu_release,
        .write = cpu_copy,
        .read = cpu_copy,
        .copy = cpu_copy,
    };
    cpu_vectors_put(&cpu->device);
    cpu_layers_put(&cpu->device);
    cpu_convolutions_put(&cpu->device);
    cpu_image_layers_put(&cpu->device);
    status = cpu_matmuls_open(cpu->casts ? WEFT_F32 : kernels->activations, set, threads, &cpu->matmuls, error);
    if (status != WEFT_OK) {
        free(cpu);
        return status;
    }
    *device = &cpu->device;
    return WEFT_OK;
}

weft_status cpu_open_with(const struct kernels *kernels, int threads, struct device **device, struct error *error)
{
    return open_table(kernels, KERNEL_SETS, threads, device, error);
}

weft_status cpu_open(enum kernel_set set, int threads, struct device **device, struct error *error)
{
    return open_table(kernels_of(WEFT_F32, set), set, threads, device, error);
}

weft_status cpu_bf16_open(enum kernel_set set, int threads, struct device **device, struct error *error)
{
    return open_table(kernels_of(WEFT_BF16, set), set, threads, device, error);
}

weft_status cpu_f16_open(enum kernel_set set, int threads, struct device **device, struct error *error)
{
    return open_table(kernels_of(WEFT_F16, set), set, threads, device, error);
}
