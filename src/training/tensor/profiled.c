/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/profiled.h"

#include "base/clock.h"

#include <stdlib.h>

struct profiled {
    struct device device;
    struct device *inner;            /* NULL: kernels are counted only */
    struct profiled_watcher watcher; /* then */
    uintptr_t next;                  /* then: where allocated memory begins */
    struct error failure;            /* the first since finish() */
    struct profiled_count counts[PROFILED_KERNELS];
};

const char *const profiled_names[PROFILED_KERNELS] = {
#define PROFILED_NAME(constant, member, name) name,
    PROFILED_LIST(PROFILED_NAME)
#undef PROFILED_NAME
};

static struct profiled *profiled_of(struct device *device)
{
    return (struct profiled *)device;
}

const struct profiled_count *profiled_counts(const struct device *device)
{
    return ((const struct profiled *)device)->counts;
}

/* A running kernel. */
struct profiled_call {
    struct profiled *profiled;
    struct device *inner;
    struct profiled_count *count;
    uint64_t begin;
};

static struct profiled_call profiled_begin(struct device *device, enum profiled_kernel kernel)
{
    struct profiled *profiled = profiled_of(device);
    return (struct profiled_call){profiled, profiled->inner, &profiled->counts[kernel],
                                  profiled->inner ? clock_now() : 0};
}

/* Keep the first failure until finish(), as every device does; the inner device has cleared it. */
static void profiled_end(const struct profiled_call *call, double flops, double bytes)
{
    call->count->calls++;
    if (call->inner) {
        call->inner->finish(call->inner, &call->profiled->failure);
        call->count->seconds += (double)(clock_now() - call->begin) * 1e-9;
    }
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

/* ---- opening and memory: not measured ---- */

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

/* The wrapper of a member with these parameters after the device: pass the arguments on, and count. */
#define UNPACKED(...) __VA_ARGS__
#define PROFILE(constant, member, parameters, arguments, flops, bytes)                                                 \
    static void profiled_##member(struct device *device, UNPACKED parameters)                                          \
    {                                                                                                                  \
        const struct profiled_call call = profiled_begin(device, PROFILED_##constant);                                 \
        if (call.inner)                                                                                                \
            call.inner->member(call.inner, UNPACKED arguments);                                                        \
        profiled_end(&call, flops, bytes);                                                                             \
    }
#define PROFILE_MOVE(constant, member, parameters, arguments, bytes)                                                   \
    PROFILE(constant, member, parameters, arguments, 0, bytes)

/* ---- kernels that are limited by arithmetic ---- */

static void profiled_matmul(struct device *device, const struct matmul *arguments)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_MATMUL);
    const struct profiled_watcher *watcher = &call.profiled->watcher;
    const size_t rows = arguments->rows, columns = arguments->columns, inner = arguments->inner;
    const double out = arguments->wide ? elements(device, rows * columns) : activations(device, rows * columns),
                 bytes = activations(device, rows * inner + inner * columns) + (arguments->accumulate ? 2 : 1) * out;
    if (call.inner)
        call.inner->matmul(call.inner, arguments);
    else if (watcher->product)
        watcher->product(watcher->context, arguments, bytes);
    profiled_end(&call, 2.0 * (double)rows * (double)columns * (double)inner, bytes);
}

/* Pairs of a query and a key that it sees, times the width of a head. Padding counts: the lengths are on the device. */
static double attention_pairs(const struct attention *shape)
{
    const double all = (double)shape->sequence, first = (double)shape->first;
    const double pairs = shape->causal ? (all * (all + 1) - first * (first + 1)) / 2 : (all - first) * all;
    return (double)(shape->batch * shape->heads * shape->head_width) * pairs;
}

/* Elements of queries, keys, values and outputs. */
static size_t attention_elements(const struct attention *shape)
{
    const size_t rows = shape->batch * (shape->sequence - shape->first);
    return rows * (attention_row(shape) + shape->heads * shape->head_width);
}

static void profiled_watch_attention(struct device *device, const struct attention *shape, bool backward, double bytes)
{
    const struct profiled *profiled = profiled_of(device);
    if (!profiled->inner && profiled->watcher.attention)
        profiled->watcher.attention(profiled->watcher.context, shape, backward, bytes);
}

/* Two products: scores and their sums of values. */
static void profiled_attention_forward(struct device *device, const struct attention *shape, const void *qkv, void *out,
                                       void *logsums)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ATTENTION_FORWARD);
    const double bytes = activations(device, attention_elements(shape));
    if (call.inner)
        call.inner->attention_forward(call.inner, shape, qkv, out, logsums);
    profiled_watch_attention(device, shape, false, bytes);
    profiled_end(&call, 4 * attention_pairs(shape), bytes);
}

/* Five: scores again, and the gradients of values, scores, queries and keys. */
static void profiled_attention_backward(struct device *device, const struct attention *shape, const void *qkv,
                                        const void *out, const void *logsums, const void *gradient_out,
                                        void *gradient_qkv)
{
    const struct profiled_call call = profiled_begin(device, PROFILED_ATTENTION_BACKWARD);
    const double bytes = 2 * activations(device, attention_elements(shape));
    if (call.inner)
        call.inner->attention_backward(call.inner, shape, qkv, out, logsums, gradient_out, gradient_qkv);
    profiled_watch_attention(device, shape, true, bytes);
    profiled_end(&call, 10 * attention_pairs(shape), bytes);
}

/* ---- kernels that are limited by memory ---- */

PROFILE_MOVE(WRITE, write, (void *to, const void *from_host, size_t bytes), (to, from_host, bytes), 2 * (double)bytes)
PROFILE_MOVE(READ, read, (void *to_host, const void *from, size_t bytes), (to_host, from, bytes), 2 * (double)bytes)
PROFILE_MOVE(COPY, copy, (void *to, const void *from, size_t bytes), (to, from, bytes), 2 * (double)bytes)
PROFILE_MOVE(FILL, fill, (size_t count, double value, void *x), (count, value, x), elements(device, count))
PROFILE_MOVE(COPY_COLUMNS, copy_columns,
             (size_t rows, size_t width, const void *from, size_t stride_from, void *to, size_t stride_to),
             (rows, width, from, stride_from, to, stride_to), 2 * elements(device, rows *width))
PROFILE_MOVE(ADD, add, (size_t count, const void *a, const void *b, void *out), (count, a, b, out),
             3 * elements(device, count))
PROFILE_MOVE(ADD_BRANCH, add_branch, (size_t count, const void *x, const void *branch, void *y), (count, x, branch, y),
             2 * elements(device, count) + activations(device, count))
PROFILE_MOVE(TO_ACTIVATIONS, to_activations, (size_t count, const void *x, void *out), (count, x, out),
             elements(device, count) + activations(device, count))
PROFILE_MOVE(DROPOUT, dropout, (const struct dropout *dropout, size_t rows, size_t width, void *x),
             (dropout, rows, width, x), 2 * elements(device, rows *width))
PROFILE_MOVE(DROPOUT_TO_ACTIVATIONS, dropout_to_activations,
             (const struct dropout *dropout, size_t rows, size_t width, const void *x, void *out),
             (dropout, rows, width, x, out), elements(device, rows *width) + activations(device, rows *width))
PROFILE_MOVE(DROPOUT_ADD_BRANCH, dropout_add_branch,
             (const struct dropout *dropout, size_t rows, size_t width, const void *x, const void *branch, void *y),
             (dropout, rows, width, x, branch, y), 2 * elements(device, rows *width) + activations(device, rows *width))
PROFILE_MOVE(FROM_ACTIVATIONS, from_activations, (size_t count, const void *x, void *out), (count, x, out),
             elements(device, count) + activations(device, count))
PROFILE_MOVE(SCALE, scale, (size_t count, double factor, void *x), (count, factor, x), 2 * elements(device, count))
PROFILE_MOVE(GELU_FORWARD, gelu_forward, (size_t count, const void *x, void *out), (count, x, out),
             2 * activations(device, count))
PROFILE_MOVE(GELU_ERF_FORWARD, gelu_erf_forward, (size_t count, const void *x, void *out), (count, x, out),
             2 * activations(device, count))
PROFILE_MOVE(TANH_FORWARD, tanh_forward, (size_t count, void *x), (count, x), 2 * activations(device, count))
PROFILE_MOVE(TANH_BACKWARD, tanh_backward, (size_t count, const void *out, void *gradient), (count, out, gradient),
             3 * activations(device, count))
PROFILE_MOVE(ADAMW, adamw,
             (const struct adamw *step, size_t count, void *parameters, const void *gradients, void *first_moments,
              void *second_moments, void *as_activations),
             (step, count, parameters, gradients, first_moments, second_moments, as_activations),
             7 * elements(device, count) + (as_activations ? activations(device, count) : 0))
PROFILE_MOVE(ADAMW_DIRECTION, adamw_direction,
             (const struct adamw *step, size_t count, const void *parameters, void *gradients, void *first_moments,
              void *second_moments),
             (step, count, parameters, gradients, first_moments, second_moments), 7 * elements(device, count))
PROFILE_MOVE(SGD, sgd, (const struct sgd *step, size_t count, void *parameters, const void *gradients, void *moments),
             (step, count, parameters, gradients, moments), 5 * elements(device, count))
PROFILE_MOVE(COMBINE, combine, (size_t count, double a, const void *x, double b, const void *y, void *out),
             (count, a, x, b, y, out), 3 * elements(device, count))
PROFILE_MOVE(SUM_OF_SQUARES, sum_of_squares, (size_t count, const void *x, double *sums), (count, x, sums),
             elements(device, count))
PROFILE_MOVE(COLUMN_SUMS, column_sums, (size_t rows, size_t width, const void *x, void *out), (rows, width, x, out),
             activations(device, rows *width))
PROFILE_MOVE(LAYER_NORM_FORWARD, layer_norm_forward,
             (size_t rows, size_t width, double epsilon, const void *x, const void *gain, const void *bias, void *out,
              void *means, void *reciprocals),
             (rows, width, epsilon, x, gain, bias, out, means, reciprocals),
             elements(device, rows *width) + activations(device, rows *width))
PROFILE_MOVE(LAYER_NORM_BACKWARD, layer_norm_backward,
             (size_t rows, size_t width, const void *gradient_out, const void *x, const void *gain, const void *means,
              const void *reciprocals, bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias),
             (rows, width, gradient_out, x, gain, means, reciprocals, accumulate, gradient_x, gradient_gain,
              gradient_bias),
             (accumulate ? 3 : 2) * elements(device, rows *width) + activations(device, rows *width))
PROFILE_MOVE(STREAM_NORM_FORWARD, stream_norm_forward,
             (size_t rows, size_t width, double epsilon, const void *x, const void *gain, const void *bias, void *out,
              void *means, void *reciprocals),
             (rows, width, epsilon, x, gain, bias, out, means, reciprocals), 2 * elements(device, rows *width))
PROFILE_MOVE(STREAM_NORM_BACKWARD, stream_norm_backward,
             (size_t rows, size_t width, const void *gradient_out, const void *x, const void *gain, const void *means,
              const void *reciprocals, bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias),
             (rows, width, gradient_out, x, gain, means, reciprocals, accumulate, gradient_x, gradient_gain,
              gradient_bias),
             (accumulate ? 4 : 3) * elements(device, rows *width))
PROFILE_MOVE(RMS_NORM_FORWARD, rms_norm_forward,
             (size_t rows, size_t width, double epsilon, const void *x, const void *gain, void *out, void *reciprocals),
             (rows, width, epsilon, x, gain, out, reciprocals),
             elements(device, rows *width) + activations(device, rows *width))
PROFILE_MOVE(RMS_NORM_BACKWARD, rms_norm_backward,
             (size_t rows, size_t width, const void *gradient_out, const void *x, const void *gain,
              const void *reciprocals, bool accumulate, void *gradient_x, void *gradient_gain),
             (rows, width, gradient_out, x, gain, reciprocals, accumulate, gradient_x, gradient_gain),
             (accumulate ? 3 : 2) * elements(device, rows *width) + activations(device, rows *width))
PROFILE_MOVE(GELU_BACKWARD, gelu_backward,
             (size_t rows, size_t width, const void *x, void *gradient, void *gradient_bias),
             (rows, width, x, gradient, gradient_bias), 3 * activations(device, rows *width))
PROFILE_MOVE(GELU_ERF_BACKWARD, gelu_erf_backward,
             (size_t rows, size_t width, const void *x, void *gradient, void *gradient_bias),
             (rows, width, x, gradient, gradient_bias), 3 * activations(device, rows *width))
PROFILE_MOVE(SWIGLU_FORWARD, swiglu_forward, (size_t rows, size_t width, const void *gate_up, void *out),
             (rows, width, gate_up, out), 3 * activations(device, rows *width))
PROFILE_MOVE(SWIGLU_BACKWARD, swiglu_backward,
             (size_t rows, size_t width, const void *gate_up, const void *gradient_out, void *gradient_gate_up),
             (rows, width, gate_up, gradient_out, gradient_gate_up), 5 * activations(device, rows *width))
PROFILE_MOVE(ROTARY, rotary, (const struct rotary *shape, void *x), (shape, x),
             2 * activations(device, shape->batch * shape->sequence * shape->heads * shape->head_width))
PROFILE_MOVE(EMBEDDING_FORWARD, embedding_forward,
             (size_t batch, size_t sequence, size_t width, size_t first_position, const int32_t *tokens,
              const void *table, const void *positions, void *out),
             (batch, sequence, width, first_position, tokens, table, positions, out),
             (positions ? 3 : 2) * elements(device, batch *sequence *width))
PROFILE_MOVE(EMBEDDING_BACKWARD, embedding_backward,
             (size_t batch, size_t sequence, size_t width, const int32_t *tokens, const void *gradient_out,
              void *gradient_table, void *gradient_positions),
             (batch, sequence, width, tokens, gradient_out, gradient_table, gradient_positions),
             (gradient_positions ? 4 : 3) * elements(device, batch *sequence *width))
PROFILE_MOVE(GATHER_ROWS, gather_rows, (const struct row_choice *choice, const void *x, void *out), (choice, x, out),
             elements(device, choice->batch * choice->count * choice->width) +
                 activations(device, choice->batch * choice->count * choice->width))
PROFILE_MOVE(SCATTER_ROWS, scatter_rows, (const struct row_choice *choice, const void *gradient, void *x),
             (choice, gradient, x),
             2 * elements(device, choice->batch * choice->count * choice->width) +
                 activations(device, choice->batch * choice->count * choice->width))
PROFILE_MOVE(CROSS_ENTROPY, cross_entropy,
             (size_t rows, size_t classes, size_t stride, const int32_t *targets, double smoothing, double scale,
              void *logits, double *losses),
             (rows, classes, stride, targets, smoothing, scale, logits, losses),
             (scale != 0 ? 2 : 1) * activations(device, rows *classes))
PROFILE_MOVE(CLASS_SUMS, class_sums, (const struct divided_classes *shape, const void *logits, struct class_sums *sums),
             (shape, logits, sums), activations(device, shape->rows * shape->classes))
PROFILE_MOVE(DIVIDED_CROSS_ENTROPY, divided_cross_entropy,
             (const struct divided_classes *shape, const struct class_sums *sums, void *logits, double *losses),
             (shape, sums, logits, losses),
             (shape->scale != 0 ? 2 : 0) * activations(device, shape->rows * shape->classes))

/* ---- images ---- */

/* Products and sums of a convolution, those with the padding included. */
static double convolution_flops(const struct convolution *shape)
{
    return 2.0 * (double)convolution_rows_out(shape) * (double)convolution_weights(shape);
}

/* Of x and out, each as often as it is read and written, and the weights. */
static double convolution_bytes(const struct device *device, const struct convolution *shape, int inputs, int outputs)
{
    return inputs * activations(device, convolution_rows_in(shape) * shape->inputs) +
           outputs * activations(device, convolution_rows_out(shape) * shape->outputs) +
           activations(device, convolution_weights(shape));
}

static void profiled_watch_convolution(struct device *device, const struct convolution *shape, double bytes)
{
    const struct profiled *profiled = profiled_of(device);
    if (!profiled->inner && profiled->watcher.product && !shape->depthwise)
        profiled->watcher.product(profiled->watcher.context,
                                  &(struct matmul){.rows = convolution_rows_out(shape),
                                                   .columns = shape->outputs,
                                                   .inner = shape->inputs * shape->kernel * shape->kernel},
                                  bytes);
}

/* The wrapper of a convolution, which reads or writes its input and output `inputs` and `outputs` times. */
#define PROFILE_CONVOLUTION(constant, member, parameters, arguments, inputs, outputs)                                  \
    static void profiled_##member(struct device *device, const struct convolution *shape, UNPACKED parameters)         \
    {                                                                                                                  \
        const struct profiled_call call = profiled_begin(device, PROFILED_##constant);                                 \
        const double bytes = convolution_bytes(device, shape, inputs, outputs);                                        \
        if (call.inner)                                                                                                \
            call.inner->member(call.inner, shape, UNPACKED arguments);                                                 \
        profiled_watch_convolution(device, shape, bytes);                                                              \
        profiled_end(&call, convolution_flops(shape), bytes);                                                          \
    }

PROFILE_CONVOLUTION(CONVOLUTION_FORWARD, convolution_forward,
                    (const void *x, const struct batch_norm *before, const void *weights, void *out,
                     const struct batch_norm *after),
                    (x, before, weights, out, after), 1, 1)
PROFILE_CONVOLUTION(CONVOLUTION_BACKWARD_INPUT, convolution_backward_input,
                    (const void *weights, const void *gradient, const void *out, const struct batch_norm *after,
                     const void *x, const struct batch_norm *before, void *gradient_x),
                    (weights, gradient, out, after, x, before, gradient_x), before ? 2 : 1, after ? 2 : 1)
PROFILE_CONVOLUTION(CONVOLUTION_BACKWARD_WEIGHTS, convolution_backward_weights,
                    (const void *x, const struct batch_norm *before, const void *gradient, const void *out,
                     const struct batch_norm *after, void *gradient_weights),
                    (x, before, gradient, out, after, gradient_weights), 1, after ? 2 : 1)

static size_t pooled_elements(const struct max_pool *shape)
{
    return shape->batch * window_count(shape->height, shape->kernel, shape->stride, shape->padding) *
           window_count(shape->width, shape->kernel, shape->stride, shape->padding) * shape->channels;
}

static size_t max_pool_elements(const struct max_pool *shape)
{
    return shape->batch * shape->height * shape->width * shape->channels;
}

static size_t average_pool_elements(const struct average_pool *shape)
{
    return shape->batch * shape->positions * shape->channels;
}

PROFILE_MOVE(PIXELS_TO_ACTIVATIONS, pixels_to_activations, (size_t count, const float *pixels, void *out),
             (count, pixels, out), (double)(count * sizeof(float)) + activations(device, count))
PROFILE_MOVE(BATCH_NORM_RECIPROCALS, batch_norm_reciprocals,
             (size_t channels, double epsilon, const void *variances, void *reciprocals),
             (channels, epsilon, variances, reciprocals), 2 * elements(device, channels))
PROFILE_MOVE(BATCH_NORM_JOIN, batch_norm_join,
             (const struct batch_norm *norm, size_t rows, size_t parts, size_t stride, const void *statistics),
             (norm, rows, parts, stride, statistics), (2 * (double)parts + 3) * elements(device, norm->channels))
PROFILE_MOVE(BATCH_NORM_FORWARD, batch_norm_forward,
             (const struct batch_norm *norm, size_t rows, const void *y, const void *x, void *out),
             (norm, rows, y, x, out),
             activations(device, rows * norm->channels) + (x ? 2 : 1) * elements(device, rows * norm->channels))
PROFILE_MOVE(BATCH_NORM_BACKWARD, batch_norm_backward,
             (const struct batch_norm *norm, size_t rows, const void *y, const void *x, void *gradient, void *d),
             (norm, rows, y, x, gradient, d),
             2 * activations(device, rows * norm->channels) + (x ? 3 : 2) * elements(device, rows * norm->channels))
PROFILE_MOVE(MAX_POOL_FORWARD, max_pool_forward,
             (const struct max_pool *shape, const void *x, const struct batch_norm *before, void *out, uint8_t *places),
             (shape, x, before, out, places),
             activations(device, max_pool_elements(shape)) + elements(device, pooled_elements(shape)) +
                 (places ? (double)pooled_elements(shape) : 0))
PROFILE_MOVE(MAX_POOL_BACKWARD, max_pool_backward,
             (const struct max_pool *shape, const void *gradient, const uint8_t *places, const void *x,
              const struct batch_norm *before, void *gradient_x),
             (shape, gradient, places, x, before, gradient_x),
             (before ? 2 : 1) * activations(device, max_pool_elements(shape)) +
                 elements(device, pooled_elements(shape)) + (double)pooled_elements(shape))
PROFILE_MOVE(AVERAGE_POOL_FORWARD, average_pool_forward,
             (const struct average_pool *shape, const void *x, const struct batch_norm *before, void *out),
             (shape, x, before, out),
             activations(device, average_pool_elements(shape)) + elements(device, shape->batch * shape->channels))
PROFILE_MOVE(AVERAGE_POOL_BACKWARD, average_pool_backward,
             (const struct average_pool *shape, const void *gradient, const void *x, const struct batch_norm *before,
              void *gradient_x),
             (shape, gradient, x, before, gradient_x),
             (before ? 2 : 1) * activations(device, average_pool_elements(shape)) +
                 elements(device, shape->batch * shape->channels))
PROFILE_MOVE(MIXED_CROSS_ENTROPY, mixed_cross_entropy,
             (size_t rows, size_t classes, size_t stride, const int32_t *targets, const float *shares, double smoothing,
              double scale, void *logits, double *losses, double *right),
             (rows, classes, stride, targets, shares, smoothing, scale, logits, losses, right),
             (scale != 0 ? 2 : 1) * activations(device, rows *classes))

/* ---- opening ---- */

/* The table of a device around `inner`. */
static struct profiled *profiled_make(const char *name, weft_type type, weft_type activations, struct device *inner,
                                      struct error *error)
{
    struct profiled *profiled = calloc(1, sizeof *profiled);
    if (!profiled) {
        error_memory(error, sizeof *profiled, "a measuring device");
        return NULL;
    }
    profiled->inner = inner;
    profiled->device = (struct device){.name = name,
                                       .type = type,
                                       .activations = activations,
                                       .threads = inner ? inner->threads : 1,
                                       .kernels = inner ? inner->kernels : "",
                                       .peak = profiled_peak,
                                       .close = profiled_close,
                                       .finish = profiled_finish,
                                       .allocate = profiled_allocate,
                                       .release = profiled_release,
#define PROFILED_MEMBER(constant, member, name) .member = profiled_##member,
                                       PROFILED_LIST(PROFILED_MEMBER)
#undef PROFILED_MEMBER
    };
    return profiled;
}

weft_status profiled_wrap(struct device **device, struct error *error)
{
    struct device *inner = *device;
    struct profiled *profiled = profiled_make(inner->name, inner->type, inner->activations, inner, error);
    if (!profiled)
        return WEFT_ERROR_MEMORY;
    *device = &profiled->device;
    return WEFT_OK;
}

/* ---- counting alone ---- */

/* Addresses that no memory has: above those that processors have. So memory costs nothing, and an access is a fault. */
#define COUNTING_FIRST ((uintptr_t)1 << 62)

static void *counting_allocate(struct device *device, size_t bytes, const char *what, struct error *error)
{
    struct profiled *profiled = profiled_of(device);
    const uintptr_t address = profiled->next, room = ((uintptr_t)1 << 63) - address;
    if (bytes > room / 2) {
        error_memory(error, bytes, what);
        return NULL;
    }
    profiled->next += (bytes + 63) / 64 * 64;
    return (void *)address;
}

static void counting_release(struct device *device, void *memory)
{
}

static double counting_peak(struct device *device)
{
    return 0;
}

static weft_status counting_finish(struct device *device, struct error *error)
{
    return WEFT_OK;
}

static void counting_close(struct device *device)
{
    free(profiled_of(device));
}

weft_status profiled_open_counting(weft_type type, weft_type activations, const struct profiled_watcher *watcher,
                                   struct device **device, struct error *error)
{
    struct profiled *profiled = profiled_make("counting", type, activations, NULL, error);
    if (!profiled)
        return WEFT_ERROR_MEMORY;
    profiled->watcher = *watcher;
    profiled->next = COUNTING_FIRST;
    profiled->device.peak = counting_peak;
    profiled->device.finish = counting_finish;
    profiled->device.allocate = counting_allocate;
    profiled->device.release = counting_release;
    profiled->device.close = counting_close;
    *device = &profiled->device;
    return WEFT_OK;
}
