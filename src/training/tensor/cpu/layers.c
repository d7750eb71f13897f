/* SPDX-License-Identifier: Apache-2.0 */
/* Layers on the processor: oneDNN for matrix products, our own kernels for the passes between them. */
#include "training/tensor/class_sums.h"
#include "training/tensor/cpu/cpu.h"
#include "training/tensor/cpu/matmul.h"
#include "training/tensor/cpu/matmul_cast.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

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

/* oneDNN takes the number of threads from OpenMP's settings of the calling thread, so set ours for the duration of the
 * call. */
static void cpu_matmul(struct device *device, const struct matmul *arguments)
{
    struct cpu *cpu = cpu_of(device);
    if (cpu->failure.status != WEFT_OK)
        return;
    int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
    omp_set_dynamic(0);
    omp_set_num_threads(device->threads);
    if (cpu->casts)
        cpu_matmul_cast(cpu, arguments);
    else
        cpu_matmuls_run(cpu->matmuls, arguments, &cpu->failure);
    omp_set_num_threads(threads);
    omp_set_dynamic(dynamic);
}

static void cpu_layer_norm_forward(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                                   const void *gain, const void *bias, void *out, void *means, void *reciprocals)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads) {
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
    FOR_EACH_PART(part, rows, 1, parts) {
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

static void cpu_stream_norm_forward(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                                    const void *gain, const void *bias, void *out, void *means, void *reciprocals)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads) {
        size_t skip = part.first * width;
        cpu->kernels->stream_norm_forward(part.count, width, (float)epsilon, (const float *)x + skip, gain, bias,
                                          (float *)out + skip, (float *)means + part.first,
                                          (float *)reciprocals + part.first);
    }
}

static void cpu_stream_norm_backward(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                     const void *x, const void *gain, const void *means, const void *reciprocals,
                                     bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias)
{
    struct cpu *cpu = cpu_of(device);
    const int parts = parts_of_sum(rows);
    size_t stride, parts_width = (width + 15) / 16 * 16;
    float *scratch = scratch_reserve(cpu, parts, 2 * parts_width, &stride);
    if (!scratch)
        return;
    FOR_EACH_PART(part, rows, 1, parts) {
        size_t skip = part.first * width;
        float *own = scratch + (size_t)i * stride;
        cpu->kernels->stream_norm_backward(part.count, width, (const float *)gradient_out + skip,
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
    FOR_EACH_PART(part, rows, 1, device->threads) {
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
    FOR_EACH_PART(part, rows, 1, parts) {
        size_t skip = part.first * width;
        cpu->kernels->rms_norm_backward(part.count, width, activation_at(cpu, gradient_out, skip),
                                        (const float *)x + skip, gain, (const float *)reciprocals + part.first,
                                        accumulate, (float *)gradient_x + skip, scratch + (size_t)i * stride);
    }
    add_parts(cpu, parts, width, scratch, stride, gradient_gain);
}

typedef void (*gelu_slopes)(size_t rows, size_t width, const void *x, void *gradient, float *gradient_bias);

static void gelu_parts_run(struct device *device, gelu_slopes slopes, size_t rows, size_t width, const void *x,
                           void *gradient, void *gradient_bias)
{
    struct cpu *cpu = cpu_of(device);
    const int parts = parts_of_sum(rows);
    size_t stride;
    float *scratch = scratch_reserve(cpu, parts, width, &stride);
    if (!scratch)
        return;
    FOR_EACH_PART(part, rows, 1, parts) {
        size_t skip = part.first * width;
        slopes(part.count, width, activation_at(cpu, x, skip), activation_at(cpu, gradient, skip),
               scratch + (size_t)i * stride);
    }
    if (gradient_bias)
        add_parts(cpu, parts, width, scratch, stride, gradient_bias);
}

static void cpu_gelu_backward(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                              void *gradient_bias)
{
    gelu_parts_run(device, cpu_of(device)->kernels->gelu_backward, rows, width, x, gradient, gradient_bias);
}

static void cpu_gelu_erf_backward(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                                  void *gradient_bias)
{
    gelu_parts_run(device, cpu_of(device)->kernels->gelu_erf_backward, rows, width, x, gradient, gradient_bias);
}

static void cpu_swiglu_forward(struct device *device, size_t rows, size_t width, const void *gate_up, void *out)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads)
        cpu->kernels->swiglu_forward(part.count, width, activation_at(cpu, gate_up, part.first * 2 * width),
                                     activation_at(cpu, out, part.first * width));
}

static void cpu_swiglu_backward(struct device *device, size_t rows, size_t width, const void *gate_up,
                                const void *gradient_out, void *gradient_gate_up)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads)
        cpu->kernels->swiglu_backward(part.count, width, activation_at(cpu, gate_up, part.first * 2 * width),
                                      activation_at(cpu, gradient_out, part.first * width),
                                      activation_at(cpu, gradient_gate_up, part.first * 2 * width));
}

/* The table of turns for `positions` positions; NULL, with the failure noted, if memory is out. */
static const float *rotary_table_find(struct cpu *cpu, const struct rotary *shape)
{
    struct rotary_table *turns = &cpu->turns;
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
    *turns = (struct rotary_table){shape->base, shape->head_width, positions, table};
    return table;
}

static void cpu_rotary(struct device *device, const struct rotary *shape, void *x)
{
    struct cpu *cpu = cpu_of(device);
    const float *table = rotary_table_find(cpu, shape);
    if (!table)
        return;
    FOR_EACH_PART(part, shape->batch * shape->sequence, 1, device->threads) {
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
    FOR_EACH_PART(part, shape->batch * shape->heads, 1, device->threads) {
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
    FOR_EACH_PART(part, shape->batch * shape->kv_heads, 1, device->threads) {
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
    FOR_EACH_PART(part, batch * sequence, 1, device->threads) {
        for (size_t row = part.first; row < part.first + part.count; row++) {
            const float *token = tokens[row] < 0 ? NULL : (const float *)table + (size_t)tokens[row] * width;
            const float *position =
                positions ? (const float *)positions + (first_position + row % sequence) * width : NULL;
            float *to = (float *)out + row * width;
            if (token && position)
                cpu->kernels->add(width, token, position, to);
            else if (token || position)
                memcpy(to, token ? token : position, width * sizeof(float));
            else
                memset(to, 0, width * sizeof(float));
        }
    }
}

/* Tokens repeat, so threads cannot divide rows of the table. Instead each thread adds its columns of every row, in the
 * order of rows. */
static void cpu_embedding_backward(struct device *device, size_t batch, size_t sequence, size_t width,
                                   const int32_t *tokens, const void *gradient_out, void *gradient_table,
                                   void *gradient_positions)
{
    struct cpu *cpu = cpu_of(device);
    const float *gradient = gradient_out;
    float *of_table = gradient_table, *of_positions = gradient_positions;
    FOR_EACH_PART(part, width, 16, device->threads) {
        for (size_t position = 0; of_positions && position < sequence; position++)
            memcpy(of_positions + position * width + part.first, gradient + position * width + part.first,
                   part.count * sizeof *gradient);
        for (size_t row = 0; row < batch * sequence; row++) {
            const float *from = gradient + row * width + part.first;
            if (tokens[row] >= 0) {
                float *token = of_table + (size_t)tokens[row] * width + part.first;
                cpu->kernels->add(part.count, token, from, token);
            }
            if (of_positions && row >= sequence) {
                float *position = of_positions + row % sequence * width + part.first;
                cpu->kernels->add(part.count, position, from, position);
            }
        }
    }
}

/* Row `i` of those that are chosen, as a number of the array's rows. */
static size_t choice_row(const struct row_choice *choice, size_t i)
{
    const size_t position = choice->positions ? (size_t)choice->positions[i] : i % choice->count;
    return i / choice->count * choice->sequence + position;
}

static void cpu_gather_rows(struct device *device, const struct row_choice *choice, const void *x, void *out)
{
    struct cpu *cpu = cpu_of(device);
    const size_t width = choice->width;
    FOR_EACH_PART(part, choice->batch * choice->count, 1, device->threads)
        for (size_t row = part.first; row < part.first + part.count; row++)
            cpu->kernels->to_activations(width, (const float *)x + choice_row(choice, row) * width,
                                         activation_at(cpu, out, row * width));
}

/* Rows may repeat within a sample, so one thread adds all of a sample. */
static void cpu_scatter_rows(struct device *device, const struct row_choice *choice, const void *gradient, void *x)
{
    struct cpu *cpu = cpu_of(device);
    const size_t width = choice->width;
    FOR_EACH_PART(part, choice->batch, 1, device->threads)
        for (size_t row = part.first * choice->count; row < (part.first + part.count) * choice->count; row++) {
            float *to = (float *)x + choice_row(choice, row) * width;
            cpu->kernels->add_branch(width, to, activation_at(cpu, gradient, row * width), to);
        }
}

static void cpu_cross_entropy(struct device *device, size_t rows, size_t classes, size_t stride, const int32_t *targets,
                              double smoothing, double scale, void *logits, double *losses)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, rows, 1, device->threads)
        cpu->kernels->cross_entropy(part.count, classes, stride, targets + part.first, (float)smoothing, (float)scale,
                                    activation_at(cpu, logits, part.first * stride), losses + part.first);
}

static void cpu_class_sums(struct device *device, const struct divided_classes *shape, const void *logits,
                           struct class_sums *sums)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, shape->rows, 1, device->threads)
        for (size_t row = part.first; row < part.first + part.count; row++)
            sums[row] = cpu->kernels->class_sums(shape, row, activation_at(cpu, logits, row * shape->stride));
}

static void cpu_divided_cross_entropy(struct device *device, const struct divided_classes *shape,
                                      const struct class_sums *sums, void *logits, double *losses)
{
    struct cpu *cpu = cpu_of(device);
    FOR_EACH_PART(part, shape->rows, 1, device->threads)
        for (size_t row = part.first; row < part.first + part.count; row++) {
            const struct class_sums all = class_sums_join(shape, sums, row);
            losses[row] = shape->targets[row] == DEVICE_NO_TARGET ? 0 : class_sums_loss(shape, &all);
            if (shape->scale != 0)
                cpu->kernels->class_gradient(shape, row, &all, activation_at(cpu, logits, row * shape->stride));
        }
}

void cpu_layers_put(struct device *device)
{
    device->matmul = cpu_matmul;
    device->layer_norm_forward = cpu_layer_norm_forward;
    device->layer_norm_backward = cpu_layer_norm_backward;
    device->stream_norm_forward = cpu_stream_norm_forward;
    device->stream_norm_backward = cpu_stream_norm_backward;
    device->rms_norm_forward = cpu_rms_norm_forward;
    device->rms_norm_backward = cpu_rms_norm_backward;
    device->gelu_backward = cpu_gelu_backward;
    device->gelu_erf_backward = cpu_gelu_erf_backward;
    device->swiglu_forward = cpu_swiglu_forward;
    device->swiglu_backward = cpu_swiglu_backward;
    device->rotary = cpu_rotary;
    device->attention_forward = cpu_attention_forward;
    device->attention_backward = cpu_attention_backward;
    device->embedding_forward = cpu_embedding_forward;
    device->embedding_backward = cpu_embedding_backward;
    device->gather_rows = cpu_gather_rows;
    device->scatter_rows = cpu_scatter_rows;
    device->cross_entropy = cpu_cross_entropy;
    device->class_sums = cpu_class_sums;
    device->divided_cross_entropy = cpu_divided_cross_entropy;
}
