/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/profiled.h"

#include "base/clock.h"

#include <stdlib.h>

struct profiled {
    struct device device;
    struct device *inner;
    struct error failure; /* the first since finish() */
    struct profiled_count counts[PROFILED_KERNELS];
};

const char *const profiled_names[PROFILED_KERNELS] = {
    [PROFILED_WRITE] = "write",
    [PROFILED_READ] = "read",
    [PROFILED_COPY] = "copy",
    [PROFILED_FILL] = "fill",
    [PROFILED_ADD] = "add",
    [PROFILED_ADD_BRANCH] = "add branch",
    [PROFILED_DROPOUT] = "dropout",
    [PROFILED_DROPOUT_NARROW] = "dropout, narrow",
    [PROFILED_DROPOUT_ADD_BRANCH] = "dropout, add branch",
    [PROFILED_NARROW] = "narrow",
    [PROFILED_WIDEN] = "widen",
    [PROFILED_SCALE] = "scale",
    [PROFILED_GELU_FORWARD] = "gelu, forward",
    [PROFILED_ADAMW] = "adamw",
    [PROFILED_ADAMW_DIRECTION] = "adamw direction",
    [PROFILED_SGD] = "sgd",
    [PROFILED_COMBINE] = "combine",
    [PROFILED_SUM_OF_SQUARES] = "sum of squares",
    [PROFILED_COLUMN_SUMS] = "column sums",
    [PROFILED_MATMUL] = "matrix product",
    [PROFILED_LAYER_NORM_FORWARD] = "layer norm, forward",
    [PROFILED_LAYER_NORM_BACKWARD] = "layer norm, backward",
    [PROFILED_RMS_NORM_FORWARD] = "rms norm, forward",
    [PROFILED_RMS_NORM_BACKWARD] = "rms norm, backward",
    [PROFILED_GELU_BACKWARD] = "gelu, backward",
    [PROFILED_SWIGLU_FORWARD] = "swiglu, forward",
    [PROFILED_SWIGLU_BACKWARD] = "swiglu, backward",
    [PROFILED_ROTARY] = "rotary",
    [PROFILED_ATTENTION_FORWARD] = "attention, forward",
    [PROFILED_ATTENTION_BACKWARD] = "attention, backward",
    [PROFILED_EMBEDDING_FORWARD] = "embedding, forward",
    [PROFILED_EMBEDDING_BACKWARD] = "embedding, backward",
    [PROFILED_CROSS_ENTROPY] = "cross-entropy",
};

static struct profiled *profiled_of(struct device *device)
{
    return (struct profiled *)device;
}

const struct profiled_count *profiled_counts(const struct device *device)
{
    return ((const struct profiled *)device)->counts;
}

/* A kernel under way. */
struct profiled_call {
    struct profiled *profiled;
    struct device *inner;
    struct profiled_count *count;
    uint64_t begin;
};

static struct profiled_call profiled_begin(struct device *device, enum profiled_kernel kernel)
{
    struct profiled *profiled = profiled_of(device);
    return (struct profiled_call){profiled, profiled->inner, &profiled->counts[kernel], clock_now()};
}

/* The first failure is kept until finish(), as every device does; the inner one has forgotten it. */
static void profiled_end(const struct profiled_call *call, double flops, double bytes)
{
    call->inner->finish(call->inner, &call->profiled->failure);
    call->count->calls++;
    call->count->seconds += (double)(clock_now() - call->begin) * 1e-9;
    call->count->flops += flops;
    call->count->bytes += bytes;
}

/* Bytes of so many elements, and of so many activations. */
static double elements(const struct device *device, size_t count)
{
    return (double)(count * weft_type_size(device->type));
}

static double activations(const struct device *device, size_t count)
{
    return (double)(count * weft_type_size(device->activations));
}

/* ---- life and memory: not measured ---- */

static double profiled_peak(struct device *device)
{
    struct device *inner = profiled_of(device)->inner;
    return inner->peak(inner);
}

static void profiled_close(struct device *device)
{
    struct profiled *profiled = profiled_of(device);
    profiled->inner->close(profiled->inner);
    free(profiled);
}

static weft_status profiled_finish(struct device *device, struct error *error)
{
    struct profiled *profiled = profiled_of(device);
    profiled->inner->finish(profiled->inner, &profiled->failure);
    const weft_status status = profiled->failure.status;
    if (status != WEFT_OK)
        error_set(error, status, "%s", profiled->failure.text);
    error_clear(&profiled->failure);
    return status;
}

static void *profiled_allocate(struct device *device, size_t bytes, const char *what, struct error *error)
{
    struct device *inner = profiled_of(device)->inner;
    return inner->allocate(inner, bytes, what, error);
}

static void profiled_release(struct device *device, void *memory)
{
    struct device *inner = profiled_of(device)->inner;
    inner->release(inner, memory);
}

/* ---- kernels whose work is in their shape ---- */

static void profiled_matmul(struct device *device, const struct matmul *arguments)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_MATMUL);
    call.inner->matmul(call.inner, arguments);
    const size_t rows = arguments->rows, columns = arguments->columns, inner = arguments->inner;
    const double out = arguments->wide ? elements(device, rows * columns) : activations(device, rows * columns);
    profiled_end(&call, 2.0 * (double)rows * (double)columns * (double)inner,
                 activations(device, rows * inner + inner * columns) + (arguments->accumulate ? 2 : 1) * out);
}

/* Pairs of a query and a key that it sees, times the width of a head. */
static double attention_pairs(const struct attention *shape)
{
    const double all = (double)shape->sequence, first = (double)shape->first;
    const double pairs = shape->causal ? (all * (all + 1) - first * (first + 1)) / 2 : (all - first) * all;
    return (double)(shape->batch * shape->heads * shape->head_width) * pairs;
}

static size_t attention_rows(const struct attention *shape)
{
    return shape->batch * (shape->sequence - shape->first);
}

/* Two products: scores and their sums of values. */
static void profiled_attention_forward(struct device *device, const struct attention *shape, const void *qkv, void *out,
                                       void *logsums)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ATTENTION_FORWARD);
    call.inner->attention_forward(call.inner, shape, qkv, out, logsums);
    profiled_end(
        &call, 4 * attention_pairs(shape),
        activations(device, attention_rows(shape) * (attention_row(shape) + shape->heads * shape->head_width)));
}

/* Five: scores again, and the gradients of values, scores, queries and keys. */
static void profiled_attention_backward(struct device *device, const struct attention *shape, const void *qkv,
                                        const void *out, const void *logsums, const void *gradient_out,
                                        void *gradient_qkv)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ATTENTION_BACKWARD);
    call.inner->attention_backward(call.inner, shape, qkv, out, logsums, gradient_out, gradient_qkv);
    profiled_end(
        &call, 10 * attention_pairs(shape),
        2 * activations(device, attention_rows(shape) * (attention_row(shape) + shape->heads * shape->head_width)));
}

/* ---- kernels that move ---- */

static void profiled_write(struct device *device, void *to, const void *from_host, size_t bytes)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_WRITE);
    call.inner->write(call.inner, to, from_host, bytes);
    profiled_end(&call, 0, 2 * (double)bytes);
}

static void profiled_read(struct device *device, void *to_host, const void *from, size_t bytes)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_READ);
    call.inner->read(call.inner, to_host, from, bytes);
    profiled_end(&call, 0, 2 * (double)bytes);
}

static void profiled_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_COPY);
    call.inner->copy(call.inner, to, from, bytes);
    profiled_end(&call, 0, 2 * (double)bytes);
}

static void profiled_fill(struct device *device, size_t count, double value, void *x)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_FILL);
    call.inner->fill(call.inner, count, value, x);
    profiled_end(&call, 0, elements(device, count));
}

static void profiled_add(struct device *device, size_t count, const void *a, const void *b, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ADD);
    call.inner->add(call.inner, count, a, b, out);
    profiled_end(&call, 0, 3 * elements(device, count));
}

static void profiled_add_branch(struct device *device, size_t count, const void *x, const void *branch, void *y)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ADD_BRANCH);
    call.inner->add_branch(call.inner, count, x, branch, y);
    profiled_end(&call, 0, 2 * elements(device, count) + activations(device, count));
}

static void profiled_narrow(struct device *device, size_t count, const void *x, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_NARROW);
    call.inner->narrow(call.inner, count, x, out);
    profiled_end(&call, 0, elements(device, count) + activations(device, count));
}

static void profiled_dropout(struct device *device, const struct dropout *dropout, size_t rows, size_t width, void *x)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_DROPOUT);
    call.inner->dropout(call.inner, dropout, rows, width, x);
    profiled_end(&call, 0, 2 * elements(device, rows * width));
}

static void profiled_dropout_narrow(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                                    const void *x, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_DROPOUT_NARROW);
    call.inner->dropout_narrow(call.inner, dropout, rows, width, x, out);
    profiled_end(&call, 0, elements(device, rows * width) + activations(device, rows * width));
}

static void profiled_dropout_add_branch(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                                        const void *x, const void *branch, void *y)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_DROPOUT_ADD_BRANCH);
    call.inner->dropout_add_branch(call.inner, dropout, rows, width, x, branch, y);
    profiled_end(&call, 0, 2 * elements(device, rows * width) + activations(device, rows * width));
}

static void profiled_widen(struct device *device, size_t count, const void *x, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_WIDEN);
    call.inner->widen(call.inner, count, x, out);
    profiled_end(&call, 0, elements(device, count) + activations(device, count));
}

static void profiled_scale(struct device *device, size_t count, double factor, void *x)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_SCALE);
    call.inner->scale(call.inner, count, factor, x);
    profiled_end(&call, 0, 2 * elements(device, count));
}

static void profiled_gelu_forward(struct device *device, size_t count, const void *x, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_GELU_FORWARD);
    call.inner->gelu_forward(call.inner, count, x, out);
    profiled_end(&call, 0, 2 * activations(device, count));
}

static void profiled_adamw(struct device *device, const struct adamw *step, size_t count, void *parameters,
                           const void *gradients, void *first_moments, void *second_moments, void *narrowed)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ADAMW);
    call.inner->adamw(call.inner, step, count, parameters, gradients, first_moments, second_moments, narrowed);
    profiled_end(&call, 0, 7 * elements(device, count) + (narrowed ? activations(device, count) : 0));
}

static void profiled_adamw_direction(struct device *device, const struct adamw *step, size_t count,
                                     const void *parameters, void *gradients, void *first_moments, void *second_moments)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ADAMW_DIRECTION);
    call.inner->adamw_direction(call.inner, step, count, parameters, gradients, first_moments, second_moments);
    profiled_end(&call, 0, 7 * elements(device, count));
}

static void profiled_sgd(struct device *device, const struct sgd *step, size_t count, void *parameters,
                         const void *gradients, void *moments)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_SGD);
    call.inner->sgd(call.inner, step, count, parameters, gradients, moments);
    profiled_end(&call, 0, 5 * elements(device, count));
}

static void profiled_combine(struct device *device, size_t count, double a, const void *x, double b, const void *y,
                             void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_COMBINE);
    call.inner->combine(call.inner, count, a, x, b, y, out);
    profiled_end(&call, 0, 3 * elements(device, count));
}

static void profiled_sum_of_squares(struct device *device, size_t count, const void *x, double *sums)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_SUM_OF_SQUARES);
    call.inner->sum_of_squares(call.inner, count, x, sums);
    profiled_end(&call, 0, elements(device, count));
}

static void profiled_column_sums(struct device *device, size_t rows, size_t width, const void *x, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_COLUMN_SUMS);
    call.inner->column_sums(call.inner, rows, width, x, out);
    profiled_end(&call, 0, activations(device, rows * width));
}

static void profiled_layer_norm_forward(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                                        const void *gain, const void *bias, void *out, void *means, void *reciprocals)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_LAYER_NORM_FORWARD);
    call.inner->layer_norm_forward(call.inner, rows, width, epsilon, x, gain, bias, out, means, reciprocals);
    profiled_end(&call, 0, elements(device, rows * width) + activations(device, rows * width));
}

static void profiled_layer_norm_backward(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                         const void *x, const void *gain, const void *means, const void *reciprocals,
                                         bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_LAYER_NORM_BACKWARD);
    call.inner->layer_norm_backward(call.inner, rows, width, gradient_out, x, gain, means, reciprocals, accumulate,
                                    gradient_x, gradient_gain, gradient_bias);
    profiled_end(&call, 0, (accumulate ? 3 : 2) * elements(device, rows * width) + activations(device, rows * width));
}

static void profiled_rms_norm_forward(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                                      const void *gain, void *out, void *reciprocals)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_RMS_NORM_FORWARD);
    call.inner->rms_norm_forward(call.inner, rows, width, epsilon, x, gain, out, reciprocals);
    profiled_end(&call, 0, elements(device, rows * width) + activations(device, rows * width));
}

static void profiled_rms_norm_backward(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                       const void *x, const void *gain, const void *reciprocals, bool accumulate,
                                       void *gradient_x, void *gradient_gain)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_RMS_NORM_BACKWARD);
    call.inner->rms_norm_backward(call.inner, rows, width, gradient_out, x, gain, reciprocals, accumulate, gradient_x,
                                  gradient_gain);
    profiled_end(&call, 0, (accumulate ? 3 : 2) * elements(device, rows * width) + activations(device, rows * width));
}

static void profiled_gelu_backward(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                                   void *gradient_bias)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_GELU_BACKWARD);
    call.inner->gelu_backward(call.inner, rows, width, x, gradient, gradient_bias);
    profiled_end(&call, 0, 3 * activations(device, rows * width));
}

static void profiled_swiglu_forward(struct device *device, size_t rows, size_t width, const void *gate_up, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_SWIGLU_FORWARD);
    call.inner->swiglu_forward(call.inner, rows, width, gate_up, out);
    profiled_end(&call, 0, 3 * activations(device, rows * width));
}

static void profiled_swiglu_backward(struct device *device, size_t rows, size_t width, const void *gate_up,
                                     const void *gradient_out, void *gradient_gate_up)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_SWIGLU_BACKWARD);
    call.inner->swiglu_backward(call.inner, rows, width, gate_up, gradient_out, gradient_gate_up);
    profiled_end(&call, 0, 5 * activations(device, rows * width));
}

static void profiled_rotary(struct device *device, const struct rotary *shape, void *x)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ROTARY);
    call.inner->rotary(call.inner, shape, x);
    profiled_end(&call, 0, 2 * activations(device, shape->batch * shape->sequence * shape->heads * shape->head_width));
}

static void profiled_embedding_forward(struct device *device, size_t batch, size_t sequence, size_t width,
                                       size_t first_position, const int32_t *tokens, const void *table,
                                       const void *positions, void *out)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_EMBEDDING_FORWARD);
    call.inner->embedding_forward(call.inner, batch, sequence, width, first_position, tokens, table, positions, out);
    profiled_end(&call, 0, (positions ? 3 : 2) * elements(device, batch * sequence * width));
}

static void profiled_embedding_backward(struct device *device, size_t batch, size_t sequence, size_t width,
                                        const int32_t *tokens, const void *gradient_out, void *gradient_table,
                                        void *gradient_positions)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_EMBEDDING_BACKWARD);
    call.inner->embedding_backward(call.inner, batch, sequence, width, tokens, gradient_out, gradient_table,
                                   gradient_positions);
    profiled_end(&call, 0, (gradient_positions ? 4 : 3) * elements(device, batch * sequence * width));
}

static void profiled_cross_entropy(struct device *device, size_t rows, size_t classes, size_t stride,
                                   const int32_t *targets, double smoothing, double scale, void *logits, double *losses)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_CROSS_ENTROPY);
    call.inner->cross_entropy(call.inner, rows, classes, stride, targets, smoothing, scale, logits, losses);
    profiled_end(&call, 0, (scale != 0 ? 2 : 1) * activations(device, rows * classes));
}

weft_status profiled_wrap(struct device **device, struct error *error)
{
    struct device *inner = *device;
    struct profiled *profiled = calloc(1, sizeof *profiled);
    if (!profiled)
        return error_memory(error, sizeof *profiled, "a measuring device");
    profiled->inner = inner;
    profiled->device = (struct device){
        .name = inner->name,
        .type = inner->type,
        .activations = inner->activations,
        .threads = inner->threads,
        .kernels = inner->kernels,
        .peak = profiled_peak,
        .close = profiled_close,
        .finish = profiled_finish,
        .allocate = profiled_allocate,
        .release = profiled_release,
        .write = profiled_write,
        .read = profiled_read,
        .copy = profiled_copy,
        .fill = profiled_fill,
        .add = profiled_add,
        .add_branch = profiled_add_branch,
        .dropout = profiled_dropout,
        .dropout_narrow = profiled_dropout_narrow,
        .dropout_add_branch = profiled_dropout_add_branch,
        .narrow = profiled_narrow,
        .widen = profiled_widen,
        .scale = profiled_scale,
        .gelu_forward = profiled_gelu_forward,
        .adamw = profiled_adamw,
        .adamw_direction = profiled_adamw_direction,
        .sgd = profiled_sgd,
        .combine = profiled_combine,
        .sum_of_squares = profiled_sum_of_squares,
        .column_sums = profiled_column_sums,
        .matmul = profiled_matmul,
        .layer_norm_forward = profiled_layer_norm_forward,
        .layer_norm_backward = profiled_layer_norm_backward,
        .rms_norm_forward = profiled_rms_norm_forward,
        .rms_norm_backward = profiled_rms_norm_backward,
        .gelu_backward = profiled_gelu_backward,
        .swiglu_forward = profiled_swiglu_forward,
        .swiglu_backward = profiled_swiglu_backward,
        .rotary = profiled_rotary,
        .attention_forward = profiled_attention_forward,
        .attention_backward = profiled_attention_backward,
        .embedding_forward = profiled_embedding_forward,
        .embedding_backward = profiled_embedding_backward,
        .cross_entropy = profiled_cross_entropy,
    };
    *device = &profiled->device;
    return WEFT_OK;
}
