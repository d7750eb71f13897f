/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor as a device: oneDNN for matrix products, our own kernels for the passes between them. This file
 * divides the work of each kernel among the device's threads and puts their parts together.
 */
#include "base/clock.h"
#include "tensor/cpu_matmul.h"
#include "tensor/devices.h"
#include "tensor/kernels/kernels.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct cpu {
    struct device device;
    const struct kernels *kernels;
    struct cpu_matmuls *matmuls;
    float *scratch; /* of all threads; grows beyond what a kernel once needed */
    size_t scratch_floats;
    struct turns {
        double base;
        size_t head_width, positions;
        float *table;     /* a row a position: head_width / 2 cosines, then as many sines */
    } turns;              /* of the last rotary positions */
    struct error failure; /* the first since finish() */
};

static struct cpu *cpu_of(struct device *device)
{
    return (struct cpu *)device;
}

/* ---- life and memory --------------------------------------------------------------------------------------------- */

static void cpu_close(struct device *device)
{
    struct cpu *cpu = cpu_of(device);
    cpu_matmuls_close(cpu->matmuls);
    free(cpu->scratch);
    free(cpu->turns.table);
    free(cpu);
}

#define PEAK_ROUNDS 4000000 /* some ten milliseconds: threads must have found cores of their own */

static double cpu_peak(struct device *device)
{
    struct cpu *cpu = cpu_of(device);
    double best = 0;
    for (int attempt = 0; attempt < 8; attempt++) {
        double rate = 0; /* by the time that threads have had a core: others may want it too */
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

/* Ask for huge pages where they lie within an array: products wait less for addresses, and the first use is faster. */
static void ask_for_huge_pages(char *memory, size_t bytes)
{
    const uintptr_t first = ((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE,
                    last = ((uintptr_t)memory + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (first < last)
        madvise(memory + (first - (uintptr_t)memory), last - first, MADV_HUGEPAGE);
}

/* Memory is written to here, as its first use would otherwise be slow in the midst of training. */
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
    memcpy(to, from, bytes);
}

/* `floats` of scratch for each of `parts`, on cache lines of its own; NULL, with the failure noted, if memory is out.
 */
static float *scratch_reserve(struct cpu *cpu, int parts, size_t floats, size_t *stride)
{
    *stride = (floats + 31) / 16 * 16;
    size_t all = *stride * (size_t)parts;
    if (all > cpu->scratch_floats) {
        all += all / 2; /* sampling asks for a little more each time */
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

/* ---- dividing work ----------------------------------------------------------------------------------------------
 *
 * A kernel's work is cut into one part for each thread of the device, by the numbers alone. Where parts end in a sum
 * over rows, they are a number of rows each instead, and are added in their order: the bits do not depend on how many
 * threads there are.
 */

struct range {
    size_t first, count;
};

/* Part `number` of `parts` of `count` things, cut at multiples of `grain`. */
static struct range part_of(size_t count, size_t grain, int number, int parts)
{
    size_t grains = (count + grain - 1) / grain;
    size_t first = grains * (size_t)number / (size_t)parts * grain;
    size_t last = grains * ((size_t)number + 1) / (size_t)parts * grain;
    first = first < count ? first : count;
    last = last < count ? last : count;
    return (struct range){first, last - first};
}

#define SUMMED_ROWS  64 /* in a part of them, or more */
#define SUMMED_PARTS 64 /* at most */

static int parts_of_sum(size_t rows)
{
    size_t parts = (rows + SUMMED_ROWS - 1) / SUMMED_ROWS;
    return parts < SUMMED_PARTS ? (int)parts : SUMMED_PARTS;
}

/* Adds up the sums that the parts have left in `scratch`. */
static void add_parts(const struct cpu *cpu, int parts, size_t width, const float *scratch, size_t stride, float *out)
{
    memcpy(out, scratch, width * sizeof *out);
    for (int i = 1; i < parts; i++)
        cpu->kernels->add(width, out, scratch + (size_t)i * stride, out);
}

#define GRAIN           1024 /* elements; parts do not share cache lines */
#define UPDATED_AT_ONCE 1024 /* elements: they are in the first cache when their narrowed copy is made */

/* Element `index` of an array of activations. */
static void *activation_at(const struct cpu *cpu, const void *array, size_t index)
{
    return (char *)array + index * weft_type_size(cpu->kernels->activations);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

static void cpu_fill(struct device *device, size_t count, double value, void *x)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->fill(part.count, (float)value, (float *)x + part.first);
    }
}

static void cpu_add(struct device *device, size_t count, const void *a, const void *b, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->add(part.count, (const float *)a + part.first, (const float *)b + part.first,
                          (float *)out + part.first);
    }
}

static void cpu_add_branch(struct device *device, size_t count, const void *x, const void *branch, void *y)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->add_branch(part.count, (const float *)x + part.first, activation_at(cpu, branch, part.first),
                                 (float *)y + part.first);
    }
}

static void cpu_dropout(struct device *device, const struct dropout *dropout, size_t rows, size_t width, void *x)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        cpu->kernels->dropout(dropout, part.first, part.count, width, (float *)x + part.first * width);
    }
}

static void cpu_dropout_narrow(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                               const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        size_t skip = part.first * width;
        cpu->kernels->dropout_narrow(dropout, part.first, part.count, width, (const float *)x + skip,
                                     activation_at(cpu, out, skip));
    }
}

static void cpu_dropout_add_branch(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                                   const void *x, const void *branch, void *y)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        size_t skip = part.first * width;
        cpu->kernels->dropout_add_branch(dropout, part.first, part.count, width, (const float *)x + skip,
                                         activation_at(cpu, branch, skip), (float *)y + skip);
    }
}

static void cpu_narrow(struct device *device, size_t count, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->narrow(part.count, (const float *)x + part.first, activation_at(cpu, out, part.first));
    }
}

static void cpu_widen(struct device *device, size_t count, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->widen(part.count, activation_at(cpu, x, part.first), (float *)out + part.first);
    }
}

static void cpu_scale(struct device *device, size_t count, double factor, void *x)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->scale(part.count, (float)factor, (float *)x + part.first);
    }
}

static void cpu_gelu_forward(struct device *device, size_t count, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->gelu_forward(part.count, activation_at(cpu, x, part.first), activation_at(cpu, out, part.first));
    }
}

static void cpu_adamw(struct device *device, const struct adamw *step, size_t count, void *parameters,
                      const void *gradients, void *first_moments, void *second_moments, void *narrowed)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        const size_t end = part.first + part.count;
        for (size_t first = part.first; first < end; first += UPDATED_AT_ONCE) {
            size_t block = end - first < UPDATED_AT_ONCE ? end - first : UPDATED_AT_ONCE;
            cpu->kernels->adamw(step, block, (float *)parameters + first, (const float *)gradients + first,
                                (float *)first_moments + first, (float *)second_moments + first);
            if (narrowed)
                cpu->kernels->narrow(block, (const float *)parameters + first, activation_at(cpu, narrowed, first));
        }
    }
}

static void cpu_adamw_direction(struct device *device, const struct adamw *step, size_t count, const void *parameters,
                                void *gradients, void *first_moments, void *second_moments)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->adamw_direction(step, part.count, (const float *)parameters + part.first,
                                      (float *)gradients + part.first, (float *)first_moments + part.first,
                                      (float *)second_moments + part.first);
    }
}

static void cpu_sgd(struct device *device, const struct sgd *step, size_t count, void *parameters,
                    const void *gradients, void *moments)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->sgd(step, part.count, (float *)parameters + part.first, (const float *)gradients + part.first,
                          (float *)moments + part.first);
    }
}

static void cpu_combine(struct device *device, size_t count, double a, const void *x, double b, const void *y,
                        void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, GRAIN, i, device->threads);
        cpu->kernels->combine(part.count, (float)a, (const float *)x + part.first, (float)b,
                              (const float *)y + part.first, (float *)out + part.first);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void cpu_sum_of_squares(struct device *device, size_t count, const void *x, double *sums)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(count, DEVICE_SQUARES_BLOCK, i, device->threads);
        for (size_t done = 0; done < part.count; done += DEVICE_SQUARES_BLOCK) {
            size_t rest = part.count - done, first = part.first + done;
            sums[first / DEVICE_SQUARES_BLOCK] = cpu->kernels->sum_of_squares(
                rest < DEVICE_SQUARES_BLOCK ? rest : DEVICE_SQUARES_BLOCK, (const float *)x + first);
        }
    }
}

static void cpu_column_sums(struct device *device, size_t rows, size_t width, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(width, 64, i, device->threads);
        cpu->kernels->column_sums(rows, width, part.first, part.first + part.count, x, out);
    }
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* oneDNN takes the number of threads from OpenMP's settings of the calling thread: ours for the time of the call. */
static void cpu_matmul(struct device *device, const struct matmul *arguments)
{
    struct cpu *cpu = cpu_of(device);
    if (cpu->failure.status != WEFT_OK)
        return;
    int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
    omp_set_dynamic(0);
    omp_set_num_threads(device->threads);
    cpu_matmuls_run(cpu->matmuls, arguments, &cpu->failure);
    omp_set_num_threads(threads);
    omp_set_dynamic(dynamic);
}

static void cpu_layer_norm_forward(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                                   const void *gain, const void *bias, void *out, void *means, void *reciprocals)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        size_t skip = part.first * width;
        cpu->kernels->layer_norm_forward(part.count, width, (float)epsilon, (const float *)x + skip, gain, bias,
                                         activation_at(cpu, out, skip), (float *)means + part.first,
                                         (float *)reciprocals + part.first);
    }
}

static void cpu_layer_norm_backward(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                    const void *x, const void *gain, const void *means, const void *reciprocals,
                                    bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias)
{
    struct cpu *cpu = cpu_of(device);
    const int parts = parts_of_sum(rows);
    size_t stride, parts_width = (width + 15) / 16 * 16;
    float *scratch = scratch_reserve(cpu, parts, 2 * parts_width, &stride);
    if (!scratch)
        return;
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < parts; i++) {
        struct range part = part_of(rows, 1, i, parts);
        size_t skip = part.first * width;
        float *own = scratch + (size_t)i * stride;
        cpu->kernels->layer_norm_backward(part.count, width, activation_at(cpu, gradient_out, skip),
                                          (const float *)x + skip, gain, (const float *)means + part.first,
                                          (const float *)reciprocals + part.first, accumulate,
                                          (float *)gradient_x + skip, own, own + parts_width);
    }
    add_parts(cpu, parts, width, scratch, stride, gradient_gain);
    add_parts(cpu, parts, width, scratch + parts_width, stride, gradient_bias);
}

static void cpu_rms_norm_forward(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                                 const void *gain, void *out, void *reciprocals)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        size_t skip = part.first * width;
        cpu->kernels->rms_norm_forward(part.count, width, (float)epsilon, (const float *)x + skip, gain,
                                       activation_at(cpu, out, skip), (float *)reciprocals + part.first);
    }
}

static void cpu_rms_norm_backward(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                  const void *x, const void *gain, const void *reciprocals, bool accumulate,
                                  void *gradient_x, void *gradient_gain)
{
    struct cpu *cpu = cpu_of(device);
    const int parts = parts_of_sum(rows);
    size_t stride;
    float *scratch = scratch_reserve(cpu, parts, width, &stride);
    if (!scratch)
        return;
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < parts; i++) {
        struct range part = part_of(rows, 1, i, parts);
        size_t skip = part.first * width;
        cpu->kernels->rms_norm_backward(part.count, width, activation_at(cpu, gradient_out, skip),
                                        (const float *)x + skip, gain, (const float *)reciprocals + part.first,
                                        accumulate, (float *)gradient_x + skip, scratch + (size_t)i * stride);
    }
    add_parts(cpu, parts, width, scratch, stride, gradient_gain);
}

static void cpu_gelu_backward(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                              void *gradient_bias)
{
    struct cpu *cpu = cpu_of(device);
    const int parts = parts_of_sum(rows);
    size_t stride;
    float *scratch = scratch_reserve(cpu, parts, width, &stride);
    if (!scratch)
        return;
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < parts; i++) {
        struct range part = part_of(rows, 1, i, parts);
        size_t skip = part.first * width;
        cpu->kernels->gelu_backward(part.count, width, activation_at(cpu, x, skip), activation_at(cpu, gradient, skip),
                                    scratch + (size_t)i * stride);
    }
    if (gradient_bias)
        add_parts(cpu, parts, width, scratch, stride, gradient_bias);
}

static void cpu_swiglu_forward(struct device *device, size_t rows, size_t width, const void *gate_up, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        cpu->kernels->swiglu_forward(part.count, width, activation_at(cpu, gate_up, part.first * 2 * width),
                                     activation_at(cpu, out, part.first * width));
    }
}

static void cpu_swiglu_backward(struct device *device, size_t rows, size_t width, const void *gate_up,
                                const void *gradient_out, void *gradient_gate_up)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        cpu->kernels->swiglu_backward(part.count, width, activation_at(cpu, gate_up, part.first * 2 * width),
                                      activation_at(cpu, gradient_out, part.first * width),
                                      activation_at(cpu, gradient_gate_up, part.first * 2 * width));
    }
}

/* The table of turns for `positions` positions; NULL, with the failure noted, if memory is out. */
static const float *turns_find(struct cpu *cpu, const struct rotary *shape)
{
    struct turns *turns = &cpu->turns;
    const size_t half = shape->head_width / 2, positions = shape->first + shape->sequence;
    if (turns->base == shape->base && turns->head_width == shape->head_width && turns->positions >= positions)
        return turns->table;
    float *table = malloc(positions * shape->head_width * sizeof *table);
    if (!table) {
        error_memory(&cpu->failure, positions * shape->head_width * sizeof *table, "rotary positions");
        return NULL;
    }
    for (size_t t = 0; t < positions; t++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)t * pow(shape->base, -2.0 * (double)i / (double)shape->head_width);
            table[t * shape->head_width + i] = (float)cos(angle);
            table[t * shape->head_width + half + i] = (float)sin(angle);
        }
    free(turns->table);
    *turns = (struct turns){shape->base, shape->head_width, positions, table};
    return table;
}

static void cpu_rotary(struct device *device, const struct rotary *shape, void *x)
{
    struct cpu *cpu = cpu_of(device);
    const float *table = turns_find(cpu, shape);
    if (!table)
        return;
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(shape->batch * shape->sequence, 1, i, device->threads);
        for (size_t row = part.first; row < part.first + part.count; row++)
            cpu->kernels->rotary(shape->heads, shape->head_width,
                                 table + (shape->first + row % shape->sequence) * shape->head_width, shape->back,
                                 activation_at(cpu, x, row * shape->stride));
    }
}

static void cpu_attention_forward(struct device *device, const struct attention *shape, const void *qkv, void *out,
                                  void *logsums)
{
    struct cpu *cpu = cpu_of(device);
    size_t stride;
    float *scratch = scratch_reserve(cpu, device->threads, cpu->kernels->attention_scratch(shape), &stride);
    if (!scratch)
        return;
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(shape->batch * shape->heads, 1, i, device->threads);
        for (size_t head = part.first; head < part.first + part.count; head++)
            cpu->kernels->attention_forward(shape, head / shape->heads, head % shape->heads, qkv, out, logsums,
                                            scratch + (size_t)i * stride);
    }
}

static void cpu_attention_backward(struct device *device, const struct attention *shape, const void *qkv,
                                   const void *out, const void *logsums, const void *gradient_out, void *gradient_qkv)
{
    struct cpu *cpu = cpu_of(device);
    size_t stride;
    float *scratch = scratch_reserve(cpu, device->threads, cpu->kernels->attention_scratch(shape), &stride);
    if (!scratch)
        return;
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(shape->batch * shape->kv_heads, 1, i, device->threads);
        for (size_t head = part.first; head < part.first + part.count; head++)
            cpu->kernels->attention_backward(shape, head / shape->kv_heads, head % shape->kv_heads, qkv, out, logsums,
                                             gradient_out, gradient_qkv, scratch + (size_t)i * stride);
    }
}

static void cpu_embedding_forward(struct device *device, size_t batch, size_t sequence, size_t width,
                                  size_t first_position, const int32_t *tokens, const void *table,
                                  const void *positions, void *out)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(batch * sequence, 1, i, device->threads);
        for (size_t row = part.first; row < part.first + part.count; row++)
            if (positions)
                cpu->kernels->add(width, (const float *)table + (size_t)tokens[row] * width,
                                  (const float *)positions + (first_position + row % sequence) * width,
                                  (float *)out + row * width);
            else
                memcpy((float *)out + row * width, (const float *)table + (size_t)tokens[row] * width,
                       width * sizeof(float));
    }
}

/* Tokens repeat, so rows of the table cannot be divided: each thread adds its columns of every row, in the order of
 * rows. */
static void cpu_embedding_backward(struct device *device, size_t batch, size_t sequence, size_t width,
                                   const int32_t *tokens, const void *gradient_out, void *gradient_table,
                                   void *gradient_positions)
{
    struct cpu *cpu = cpu_of(device);
    const float *gradient = gradient_out;
    float *of_table = gradient_table, *of_positions = gradient_positions;
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(width, 16, i, device->threads);
        for (size_t position = 0; of_positions && position < sequence; position++)
            memcpy(of_positions + position * width + part.first, gradient + position * width + part.first,
                   part.count * sizeof *gradient);
        for (size_t row = 0; row < batch * sequence; row++) {
            const float *from = gradient + row * width + part.first;
            float *token = of_table + (size_t)tokens[row] * width + part.first;
            cpu->kernels->add(part.count, token, from, token);
            if (of_positions && row >= sequence) {
                float *position = of_positions + row % sequence * width + part.first;
                cpu->kernels->add(part.count, position, from, position);
            }
        }
    }
}

static void cpu_cross_entropy(struct device *device, size_t rows, size_t classes, size_t stride, const int32_t *targets,
                              double smoothing, double scale, void *logits, double *losses)
{
    struct cpu *cpu = cpu_of(device);
#pragma omp parallel for schedule(static, 1) num_threads(device->threads) if (device->threads > 1)
    for (int i = 0; i < device->threads; i++) {
        struct range part = part_of(rows, 1, i, device->threads);
        cpu->kernels->cross_entropy(part.count, classes, stride, targets + part.first, (float)smoothing, (float)scale,
                                    activation_at(cpu, logits, part.first * stride), losses + part.first);
    }
}

/* oneDNN leaves parts of a product out, without a word, where OpenMP gives fewer threads than it says it will. */
static weft_status check_threads(int threads, struct error *error)
{
    int given = 1, dynamic = omp_get_dynamic();
    if (threads == 1)
        return WEFT_OK;
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

weft_status cpu_open_with(const struct kernels *kernels, int threads, struct device **device, struct error *error)
{
    weft_status status = check_threads(threads, error);
    if (status != WEFT_OK)
        return status;
    struct cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return error_memory(error, sizeof *cpu, "a device");
    cpu->kernels = kernels;
    cpu->device = (struct device){
        .name = kernels->activations == WEFT_BF16 ? "cpu-bf16" : "cpu",
        .type = WEFT_F32,
        .activations = kernels->activations,
        .threads = threads,
        .kernels = cpu->kernels->name,
        .peak = cpu_peak,
        .close = cpu_close,
        .finish = cpu_finish,
        .allocate = cpu_allocate,
        .release = cpu_release,
        .write = cpu_copy,
        .read = cpu_copy,
        .copy = cpu_copy,
        .fill = cpu_fill,
        .add = cpu_add,
        .add_branch = cpu_add_branch,
        .dropout = cpu_dropout,
        .dropout_narrow = cpu_dropout_narrow,
        .dropout_add_branch = cpu_dropout_add_branch,
        .narrow = cpu_narrow,
        .widen = cpu_widen,
        .scale = cpu_scale,
        .gelu_forward = cpu_gelu_forward,
        .adamw = cpu_adamw,
        .adamw_direction = cpu_adamw_direction,
        .sgd = cpu_sgd,
        .combine = cpu_combine,
        .sum_of_squares = cpu_sum_of_squares,
        .column_sums = cpu_column_sums,
        .matmul = cpu_matmul,
        .layer_norm_forward = cpu_layer_norm_forward,
        .layer_norm_backward = cpu_layer_norm_backward,
        .rms_norm_forward = cpu_rms_norm_forward,
        .rms_norm_backward = cpu_rms_norm_backward,
        .gelu_backward = cpu_gelu_backward,
        .swiglu_forward = cpu_swiglu_forward,
        .swiglu_backward = cpu_swiglu_backward,
        .rotary = cpu_rotary,
        .attention_forward = cpu_attention_forward,
        .attention_backward = cpu_attention_backward,
        .embedding_forward = cpu_embedding_forward,
        .embedding_backward = cpu_embedding_backward,
        .cross_entropy = cpu_cross_entropy,
    };
    status = cpu_matmuls_open(kernels->activations, threads, &cpu->matmuls, error);
    if (status != WEFT_OK) {
        free(cpu);
        return status;
    }
    *device = &cpu->device;
    return WEFT_OK;
}

static weft_status open_fastest(weft_type activations, int threads, struct device **device, struct error *error)
{
    size_t count;
    const struct kernels *const *tables = kernels_supported(activations, &count);
    return cpu_open_with(tables[count - 1], threads, device, error);
}

weft_status cpu_open(int threads, struct device **device, struct error *error)
{
    return open_fastest(WEFT_F32, threads, device, error);
}

weft_status cpu_bf16_open(int threads, struct device **device, struct error *error)
{
    return open_fastest(WEFT_BF16, threads, device, error);
}
