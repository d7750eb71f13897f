/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors on the processor: elementwise kernels, optimizers and sums, each cut into ranges. */
#include "training/tensor/cpu/cpu.h"

#include <string.h>

#define GRAIN           1024 /* elements; parts do not share cache lines */
#define UPDATED_AT_ONCE 1024 /* elements: they are in the L1 cache when they are cast */

static void cpu_fill(struct device *device, size_t count, double value, void *x)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->fill(part.count, (float)value, (float *)x + part.first);
}

static void cpu_copy_columns(struct device *device, size_t rows, size_t width, const void *from, size_t stride_from,
                             void *to, size_t stride_to)
{
    FOR_EACH_PART(part, rows, 1, device->threads)
        for (size_t row = part.first; row < part.first + part.count; row++)
            memcpy((float *)to + row * stride_to, (const float *)from + row * stride_from, width * sizeof(float));
}

static void cpu_add(struct device *device, size_t count, const void *a, const void *b, void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->add(part.count, (const float *)a + part.first, (const float *)b + part.first,
                          (float *)out + part.first);
}

static void cpu_add_branch(struct device *device, size_t count, const void *x, const void *branch, void *y)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->add_branch(part.count, (const float *)x + part.first, activation_at(cpu, branch, part.first),
                                 (float *)y + part.first);
}

static void cpu_dropout(struct device *device, const struct dropout *dropout, size_t rows, size_t width, void *x)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads)
        cpu->kernels->dropout(dropout, part.first, part.count, width, (float *)x + part.first * width);
}

static void cpu_dropout_to_activations(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                                       const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads) {
        size_t skip = part.first * width;
        cpu->kernels->dropout_to_activations(dropout, part.first, part.count, width, (const float *)x + skip,
                                             activation_at(cpu, out, skip));
    }
}

static void cpu_dropout_add_branch(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                                   const void *x, const void *branch, void *y)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads) {
        size_t skip = part.first * width;
        cpu->kernels->dropout_add_branch(dropout, part.first, part.count, width, (const float *)x + skip,
                                         activation_at(cpu, branch, skip), (float *)y + skip);
    }
}

static void cpu_to_activations(struct device *device, size_t count, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->to_activations(part.count, (const float *)x + part.first, activation_at(cpu, out, part.first));
}

static void cpu_from_activations(struct device *device, size_t count, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->from_activations(part.count, activation_at(cpu, x, part.first), (float *)out + part.first);
}

static void cpu_scale(struct device *device, size_t count, double factor, void *x)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->scale(part.count, (float)factor, (float *)x + part.first);
}

static void cpu_gelu_forward(struct device *device, size_t count, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->gelu_forward(part.count, activation_at(cpu, x, part.first), activation_at(cpu, out, part.first));
}

static void cpu_gelu_erf_forward(struct device *device, size_t count, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->gelu_erf_forward(part.count, activation_at(cpu, x, part.first),
                                       activation_at(cpu, out, part.first));
}

static void cpu_tanh_forward(struct device *device, size_t count, void *x)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->tanh_forward(part.count, activation_at(cpu, x, part.first));
}

static void cpu_tanh_backward(struct device *device, size_t count, const void *out, void *gradient)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->tanh_backward(part.count, activation_at(cpu, out, part.first),
                                    activation_at(cpu, gradient, part.first));
}

static void cpu_adamw(struct device *device, const struct adamw *step, size_t count, void *parameters,
                      const void *gradients, void *first_moments, void *second_moments, void *as_activations)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads) {
        const size_t end = part.first + part.count;
        for (size_t first = part.first; first < end; first += UPDATED_AT_ONCE) {
            size_t block = end - first < UPDATED_AT_ONCE ? end - first : UPDATED_AT_ONCE;
            cpu->kernels->adamw(step, block, (float *)parameters + first, (const float *)gradients + first,
                                (float *)first_moments + first, (float *)second_moments + first);
            if (as_activations)
                cpu->kernels->to_activations(block, (const float *)parameters + first,
                                             activation_at(cpu, as_activations, first));
        }
    }
}

static void cpu_adamw_direction(struct device *device, const struct adamw *step, size_t count, const void *parameters,
                                void *gradients, void *first_moments, void *second_moments)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->adamw_direction(step, part.count, (const float *)parameters + part.first,
                                      (float *)gradients + part.first, (float *)first_moments + part.first,
                                      (float *)second_moments + part.first);
}

static void cpu_sgd(struct device *device, const struct sgd *step, size_t count, void *parameters,
                    const void *gradients, void *moments)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->sgd(step, part.count, (float *)parameters + part.first, (const float *)gradients + part.first,
                          (float *)moments + part.first);
}

static void cpu_combine(struct device *device, size_t count, double a, const void *x, double b, const void *y,
                        void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, GRAIN, device->threads)
        cpu->kernels->combine(part.count, (float)a, (const float *)x + part.first, (float)b,
                              (const float *)y + part.first, (float *)out + part.first);
}

/* ---- sums ---- */

static void cpu_sum_of_squares(struct device *device, size_t count, const void *x, double *sums)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, count, DEVICE_SQUARES_BLOCK, device->threads) {
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
    FOR_EACH_PART(part, width, 64, device->threads)
        cpu->kernels->column_sums(rows, width, part.first, part.first + part.count, x, out);
}

void cpu_vectors_put(struct device *device)
{
    device->fill = cpu_fill;
    device->copy_columns = cpu_copy_columns;
    device->add = cpu_add;
    device->add_branch = cpu_add_branch;
    device->dropout = cpu_dropout;
    device->dropout_to_activations = cpu_dropout_to_activations;
    device->dropout_add_branch = cpu_dropout_add_branch;
    device->to_activations = cpu_to_activations;
    device->from_activations = cpu_from_activations;
    device->scale = cpu_scale;
    device->gelu_forward = cpu_gelu_forward;
    device->gelu_erf_forward = cpu_gelu_erf_forward;
    device->tanh_forward = cpu_tanh_forward;
    device->tanh_backward = cpu_tanh_backward;
    device->adamw = cpu_adamw;
    device->adamw_direction = cpu_adamw_direction;
    device->sgd = cpu_sgd;
    device->combine = cpu_combine;
    device->sum_of_squares = cpu_sum_of_squares;
    device->column_sums = cpu_column_sums;
}
