/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference device: every kernel written as its formula, in plain C, without regard to speed. Fast kernels are
 * tested against it and gradients are checked on it, so it must be easy to verify by reading.
 *
 * A template: reference_f32.c and reference_f64.c include it once each, with REAL (the element type), REAL_TYPE,
 * REFERENCE_NAME and REFERENCE_OPEN defined. Sums are in REAL too, except where device.h says double.
 */
#include "training/tensor/class_sums.h"
#include "training/tensor/devices.h"
#include "training/tensor/dropout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GELU_ROOT 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715

/* A peak means nothing for code that is not optimized. */
static double reference_peak(struct device *device)
{
    return 1e9;
}

/* ---- life and memory ---- */

static void reference_close(struct device *device)
{
    free(device);
}

static weft_status reference_finish(struct device *device, struct error *error)
{
    return WEFT_OK;
}

static void *reference_allocate(struct device *device, size_t bytes, const char *what, struct error *error)
{
    size_t rounded = (bytes + 63) / 64 * 64 + 64;
    void *memory = bytes < SIZE_MAX - 128 ? aligned_alloc(64, rounded) : NULL;
    if (!memory) {
        error_memory(error, bytes, what);
        return NULL;
    }
    return memset(memory, 0, rounded);
}

static void reference_release(struct device *device, void *memory)
{
    free(memory);
}

static void reference_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

/* ---- vectors ---- */

static void reference_fill(struct device *device, size_t count, double value, void *x_)
{
    REAL *x = x_;
    for (size_t i = 0; i < count; i++)
        x[i] = (REAL)value;
}

static void reference_copy_columns(struct device *device, size_t rows, size_t width, const void *from,
                                   size_t stride_from, void *to, size_t stride_to)
{
    for (size_t i = 0; i < rows; i++)
        memcpy((REAL *)to + i * stride_to, (const REAL *)from + i * stride_from, width * sizeof(REAL));
}

static void reference_add(struct device *device, size_t count, const void *a_, const void *b_, void *out_)
{
    const REAL *a = a_, *b = b_;
    REAL *out = out_;
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

static void reference_add_branch(struct device *device, size_t count, const void *x_, const void *branch_, void *y_)
{
    const REAL *x = x_, *branch = branch_;
    REAL *y = y_;
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] + branch[i];
}

static REAL dropped(const struct dropout *dropout, size_t row, size_t column, REAL x)
{
    return dropout_keeps(dropout, row, column) ? x * (REAL)dropout_factor(dropout) : 0;
}

static void reference_dropout_to_activations(struct device *device, const struct dropout *dropout, size_t rows,
                                             size_t width, const void *x_, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++)
            out[i * width + j] = dropped(dropout, i, j, x[i * width + j]);
}

static void reference_dropout(struct device *device, const struct dropout *dropout, size_t rows, size_t width, void *x)
{
    reference_dropout_to_activations(device, dropout, rows, width, x, x);
}

static void reference_dropout_add_branch(struct device *device, const struct dropout *dropout, size_t rows,
                                         size_t width, const void *x_, const void *branch_, void *y_)
{
    const REAL *x = x_, *branch = branch_;
    REAL *y = y_;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++)
            y[i * width + j] = x[i * width + j] + dropped(dropout, i, j, branch[i * width + j]);
}

static void reference_to_activations(struct device *device, size_t count, const void *x, void *out)
{
    memcpy(out, x, count * sizeof(REAL));
}

static void reference_from_activations(struct device *device, size_t count, const void *x, void *out)
{
    memcpy(out, x, count * sizeof(REAL));
}

static void reference_scale(struct device *device, size_t count, double factor, void *x_)
{
    REAL *x = x_;
    for (size_t i = 0; i < count; i++)
        x[i] *= (REAL)factor;
}

static void reference_gelu_forward(struct device *device, size_t count, const void *x_, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (size_t i = 0; i < count; i++) {
        double inner = GELU_ROOT * (x[i] + GELU_CUBE * x[i] * x[i] * x[i]);
        out[i] = (REAL)(0.5 * x[i] * (1 + tanh(inner)));
    }
}

static void reference_adamw(struct device *device, const struct adamw *step, size_t count, void *parameters_,
                            const void *gradients_, void *first_moments_, void *second_moments_, void *as_activations)
{
    REAL *p = parameters_, *m = first_moments_, *v = second_moments_;
    const REAL *gradients = gradients_;
    for (size_t i = 0; i < count; i++) {
        REAL g = gradients[i] * (REAL)step->gradient_scale;
        m[i] = (REAL)(step->beta1 * m[i] + (1 - step->beta1) * g);
        v[i] = (REAL)(step->beta2 * v[i] + (1 - step->beta2) * g * g);
        double direction = m[i] * step->correction1 / (sqrt(v[i] * step->correction2) + step->epsilon);
        p[i] = (REAL)(p[i] - step->rate * step->weight_decay * p[i] - step->rate * direction);
    }
    if (as_activations)
        memcpy(as_activations, p, count * sizeof *p);
}

static void reference_adamw_direction(struct device *device, const struct adamw *step, size_t count,
                                      const void *parameters_, void *gradients_, void *first_moments_,
                                      void *second_moments_)
{
    const REAL *p = parameters_;
    REAL *gradients = gradients_, *m = first_moments_, *v = second_moments_;
    for (size_t i = 0; i < count; i++) {
        REAL g = gradients[i] * (REAL)step->gradient_scale;
        m[i] = (REAL)(step->beta1 * m[i] + (1 - step->beta1) * g);
        v[i] = (REAL)(step->beta2 * v[i] + (1 - step->beta2) * g * g);
        double direction = m[i] * step->correction1 / (sqrt(v[i] * step->correction2) + step->epsilon);
        gradients[i] = (REAL)(direction + step->weight_decay * p[i]);
    }
}

static void reference_sgd(struct device *device, const struct sgd *step, size_t count, void *parameters_,
                          const void *gradients_, void *moments_)
{
    const REAL *gradients = gradients_;
    REAL *p = parameters_, *m = moments_;
    for (size_t i = 0; i < count; i++) {
        double g = gradients[i] * step->gradient_scale + step->weight_decay * p[i];
        m[i] = (REAL)(step->momentum * m[i] + g);
        p[i] = (REAL)(p[i] - step->rate * m[i]);
    }
}

static void reference_combine(struct device *device, size_t count, double a, const void *x_, double b, const void *y_,
                              void *out_)
{
    const REAL *x = x_, *y = y_;
    REAL *out = out_;
    for (size_t i = 0; i < count; i++)
        out[i] = (REAL)(a * x[i] + b * y[i]);
}

/* ---- sums ---- */

static void reference_sum_of_squares(struct device *device, size_t count, const void *x_, double *sums)
{
    const REAL *x = x_;
    for (size_t i = 0; i < count; i++) {
        if (i % DEVICE_SQUARES_BLOCK == 0)
            sums[i / DEVICE_SQUARES_BLOCK] = 0;
        sums[i / DEVICE_SQUARES_BLOCK] += (double)x[i] * (double)x[i];
    }
}

static void reference_column_sums(struct device *device, size_t rows, size_t width, const void *x_, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    memset(out, 0, width * sizeof *out);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++)
            out[j] += x[i * width + j];
}

/* ---- matrix product ---- */

static void reference_matmul(struct device *device, const struct matmul *matmul)
{
    const REAL *a = matmul->a, *b = matmul->b, *bias = matmul->bias;
    REAL *c = matmul->c;
    size_t stride_a = matmul->stride_a ? matmul->stride_a : matmul->transpose_a ? matmul->rows : matmul->inner;
    size_t stride_b = matmul->stride_b ? matmul->stride_b : matmul->transpose_b ? matmul->inner : matmul->columns;
    size_t stride_c = matmul->stride_c ? matmul->stride_c : matmul->columns;
    for (size_t i = 0; i < matmul->rows; i++)
        for (size_t j = 0; j < matmul->columns; j++) {
            REAL sum = bias ? bias[j] : 0;
            for (size_t k = 0; k < matmul->inner; k++)
                sum += (matmul->transpose_a ? a[k * stride_a + i] : a[i * stride_a + k]) *
                       (matmul->transpose_b ? b[j * stride_b + k] : b[k * stride_b + j]);
            REAL *element = &c[i * stride_c + j];
            *element = matmul->accumulate ? *element + sum : sum;
        }
}

#include "training/tensor/internal/reference_text.h"

/* ---- layer norm and GELU ---- */

static void reference_layer_norm_forward(struct device *device, size_t rows, size_t width, double epsilon,
                                         const void *x_, const void *gain_, const void *bias_, void *out_, void *means_,
                                         void *reciprocals_)
{
    const REAL *gain = gain_, *bias = bias_;
    REAL *means = means_, *reciprocals = reciprocals_;
    for (size_t i = 0; i < rows; i++) {
        const REAL *x = (const REAL *)x_ + i * width;
        REAL *out = (REAL *)out_ + i * width;
        REAL mean = 0, variance = 0;
        for (size_t j = 0; j < width; j++)
            mean += x[j];
        mean /= (REAL)width;
        for (size_t j = 0; j < width; j++)
            variance += (x[j] - mean) * (x[j] - mean);
        variance /= (REAL)width;
        REAL reciprocal = (REAL)(1 / sqrt(variance + epsilon));
        for (size_t j = 0; j < width; j++)
            out[j] = (x[j] - mean) * reciprocal * gain[j] + bias[j];
        means[i] = mean;
        reciprocals[i] = reciprocal;
    }
}

/*
 * With n = (x - mean) r the normalized row and g = gradient_out gain, the gradient of x is
 * r (g - mean(g) - n mean(g n)), as the mean and the variance depend on x too.
 */
static void reference_layer_norm_backward(struct device *device, size_t rows, size_t width, const void *gradient_out_,
                                          const void *x_, const void *gain_, const void *means_,
                                          const void *reciprocals_, bool accumulate, void *gradient_x_,
                                          void *gradient_gain_, void *gradient_bias_)
{
    const REAL *gain = gain_, *means = means_, *reciprocals = reciprocals_;
    REAL *gradient_gain = gradient_gain_, *gradient_bias = gradient_bias_;
    memset(gradient_gain, 0, width * sizeof(REAL));
    memset(gradient_bias, 0, width * sizeof(REAL));
    for (size_t i = 0; i < rows; i++) {
        const REAL *gradient_out = (const REAL *)gradient_out_ + i * width, *x = (const REAL *)x_ + i * width;
        REAL *gradient_x = (REAL *)gradient_x_ + i * width;
        REAL mean_g = 0, mean_gn = 0;
        for (size_t j = 0; j < width; j++) {
            REAL n = (x[j] - means[i]) * reciprocals[i];
            gradient_bias[j] += gradient_out[j];
            gradient_gain[j] += gradient_out[j] * n;
            mean_g += gradient_out[j] * gain[j];
            mean_gn += gradient_out[j] * gain[j] * n;
        }
        mean_g /= (REAL)width;
        mean_gn /= (REAL)width;
        for (size_t j = 0; j < width; j++) {
            REAL n = (x[j] - means[i]) * reciprocals[i];
            REAL gradient = reciprocals[i] * (gradient_out[j] * gain[j] - mean_g - n * mean_gn);
            gradient_x[j] = accumulate ? gradient_x[j] + gradient : gradient;
        }
    }
}

static void reference_rms_norm_forward(struct device *device, size_t rows, size_t width, double epsilon, const void *x_,
                                       const void *gain_, void *out_, void *reciprocals_)
{
    const REAL *gain = gain_;
    REAL *reciprocals = reciprocals_;
    for (size_t i = 0; i < rows; i++) {
        const REAL *x = (const REAL *)x_ + i * width;
        REAL *out = (REAL *)out_ + i * width, squares = 0;
        for (size_t j = 0; j < width; j++)
            squares += x[j] * x[j];
        reciprocals[i] = (REAL)(1 / sqrt(squares / (REAL)width + epsilon));
        for (size_t j = 0; j < width; j++)
            out[j] = x[j] * reciprocals[i] * gain[j];
    }
}

/* As above, without a mean that depends on x: r (g - n mean(g n)). */
static void reference_rms_norm_backward(struct device *device, size_t rows, size_t width, const void *gradient_out_,
                                        const void *x_, const void *gain_, const void *reciprocals_, bool accumulate,
                                        void *gradient_x_, void *gradient_gain_)
{
    const REAL *gain = gain_, *reciprocals = reciprocals_;
    REAL *gradient_gain = gradient_gain_;
    memset(gradient_gain, 0, width * sizeof(REAL));
    for (size_t i = 0; i < rows; i++) {
        const REAL *gradient_out = (const REAL *)gradient_out_ + i * width, *x = (const REAL *)x_ + i * width;
        REAL *gradient_x = (REAL *)gradient_x_ + i * width, mean_gn = 0;
        for (size_t j = 0; j < width; j++) {
            REAL n = x[j] * reciprocals[i];
            gradient_gain[j] += gradient_out[j] * n;
            mean_gn += gradient_out[j] * gain[j] * n;
        }
        mean_gn /= (REAL)width;
        for (size_t j = 0; j < width; j++) {
            REAL gradient = reciprocals[i] * (gradient_out[j] * gain[j] - x[j] * reciprocals[i] * mean_gn);
            gradient_x[j] = accumulate ? gradient_x[j] + gradient : gradient;
        }
    }
}

static void reference_gelu_backward(struct device *device, size_t rows, size_t width, const void *x_, void *gradient_,
                                    void *gradient_bias_)
{
    const REAL *x = x_;
    REAL *gradient = gradient_;
    for (size_t i = 0; i < rows * width; i++) {
        double inner = GELU_ROOT * (x[i] + GELU_CUBE * x[i] * x[i] * x[i]);
        double slope = GELU_ROOT * (1 + 3 * GELU_CUBE * x[i] * x[i]);
        double t = tanh(inner);
        gradient[i] *= (REAL)(0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * slope);
    }
    if (gradient_bias_)
        reference_column_sums(device, rows, width, gradient, gradient_bias_);
}

/* ---- SwiGLU and rotary positions ---- */

static void reference_swiglu_forward(struct device *device, size_t rows, size_t width, const void *gate_up_, void *out_)
{
    REAL *out = out_;
    for (size_t i = 0; i < rows; i++) {
        const REAL *gate = (const REAL *)gate_up_ + i * 2 * width, *up = gate + width;
        for (size_t j = 0; j < width; j++)
            out[i * width + j] = (REAL)(gate[j] / (1 + exp(-gate[j]))) * up[j];
    }
}

static void reference_swiglu_backward(struct device *device, size_t rows, size_t width, const void *gate_up_,
                                      const void *gradient_out_, void *gradient_gate_up_)
{
    const REAL *gradient_out = gradient_out_;
    for (size_t i = 0; i < rows; i++) {
        const REAL *gate = (const REAL *)gate_up_ + i * 2 * width, *up = gate + width;
        REAL *to_gate = (REAL *)gradient_gate_up_ + i * 2 * width, *to_up = to_gate + width;
        for (size_t j = 0; j < width; j++) {
            double g = gate[j], u = up[j], s = 1 / (1 + exp(-g)), gradient = gradient_out[i * width + j];
            to_gate[j] = (REAL)(gradient * u * (s + g * s * (1 - s)));
            to_up[j] = (REAL)(gradient * g * s);
        }
    }
}

static void reference_rotary(struct device *device, const struct rotary *shape, void *x_)
{
    const size_t half = shape->head_width / 2;
    for (size_t row = 0; row < shape->batch * shape->sequence; row++)
        for (size_t head = 0; head < shape->heads; head++) {
            REAL *x = (REAL *)x_ + row * shape->stride + head * shape->head_width;
            for (size_t i = 0; i < half; i++) {
                double position = (double)(shape->first + row % shape->sequence);
                double angle = position * pow(shape->base, -2.0 * (double)i / (double)shape->head_width);
                REAL cosine = (REAL)cos(angle), sine = (REAL)sin(shape->back ? -angle : angle);
                REAL a = x[i], b = x[half + i];
                x[i] = a * cosine - b * sine;
                x[half + i] = b * cosine + a * sine;
            }
        }
}

/* ---- attention ---- */

/* The query (part 0), key or value (1, 2) of position t in sequence b for one head of queries. */
static size_t qkv_offset(const struct attention *shape, size_t b, size_t t, size_t head, size_t part)
{
    size_t row = (b * shape->sequence + t) * attention_row(shape);
    size_t before =
        part == 0 ? head : shape->heads + (part - 1) * shape->kv_heads + head * shape->kv_heads / shape->heads;
    return row + before * shape->head_width;
}

/* The keys that position t of sequence b sees. */
static size_t keys_seen(const struct attention *shape, size_t b, size_t t)
{
    const size_t keys = shape->lengths ? (size_t)shape->lengths[b] : shape->sequence;
    return shape->causal ? t + 1 : keys;
}

static REAL dot(const REAL *a, const REAL *b, size_t count)
{
    REAL sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void reference_attention_forward(struct device *device, const struct attention *shape, const void *qkv_,
                                        void *out_, void *logsums_)
{
    const REAL *qkv = qkv_;
    REAL *out = out_, *logsums = logsums_;
    REAL scale = (REAL)(1 / sqrt((double)shape->head_width));
    for (size_t b = 0; b < shape->batch; b++)
        for (size_t head = 0; head < shape->heads; head++)
            for (size_t t = shape->first; t < shape->sequence; t++) {
                size_t seen = keys_seen(shape, b, t);
                const REAL *query = qkv + qkv_offset(shape, b, t, head, 0);
                REAL *result = out + ((b * shape->sequence + t) * shape->heads + head) * shape->head_width;
                REAL most = -INFINITY, sum = 0;
                for (size_t s = 0; s < seen; s++) {
                    REAL score = scale * dot(query, qkv + qkv_offset(shape, b, s, head, 1), shape->head_width);
                    most = score > most ? score : most;
                }
                memset(result, 0, shape->head_width * sizeof(REAL));
                for (size_t s = 0; s < seen; s++) {
                    REAL score = scale * dot(query, qkv + qkv_offset(shape, b, s, head, 1), shape->head_width);
                    REAL weight = (REAL)exp(score - most);
                    const REAL *value = qkv + qkv_offset(shape, b, s, head, 2);
                    sum += weight;
                    for (size_t d = 0; d < shape->head_width; d++)
                        result[d] += weight * value[d];
                }
                for (size_t d = 0; d < shape->head_width; d++)
                    result[d] /= sum;
                if (logsums)
                    logsums[(b * shape->heads + head) * shape->sequence + t] = (REAL)(most + log(sum));
            }
}

/*
 * With probabilities p = exp(score - logsum): the gradient of p_s is gradient_out . v_s, and the gradient of score_s is
 * p_s (gradient_out . v_s - gradient_out . out), as softmax's mean of the former is gradient_out . out.
 */
static void reference_attention_backward(struct device *device, const struct attention *shape, const void *qkv_,
                                         const void *out_, const void *logsums_, const void *gradient_out_,
                                         void *gradient_qkv_)
{
    const REAL *qkv = qkv_, *out = out_, *logsums = logsums_, *gradient_out = gradient_out_;
    REAL *gradient_qkv = gradient_qkv_;
    size_t width = shape->head_width;
    REAL scale = (REAL)(1 / sqrt((double)width));
    memset(gradient_qkv, 0, shape->batch * shape->sequence * attention_row(shape) * sizeof(REAL));
    for (size_t b = 0; b < shape->batch; b++)
        for (size_t head = 0; head < shape->heads; head++)
            for (size_t t = 0; t < shape->sequence; t++) {
                size_t seen = keys_seen(shape, b, t);
                size_t row = ((b * shape->sequence + t) * shape->heads + head) * width;
                const REAL *query = qkv + qkv_offset(shape, b, t, head, 0);
                REAL *gradient_query = gradient_qkv + qkv_offset(shape, b, t, head, 0);
                REAL mean = dot(gradient_out + row, out + row, width);
                for (size_t s = 0; s < seen; s++) {
                    const REAL *key = qkv + qkv_offset(shape, b, s, head, 1);
                    const REAL *value = qkv + qkv_offset(shape, b, s, head, 2);
                    REAL *gradient_key = gradient_qkv + qkv_offset(shape, b, s, head, 1);
                    REAL *gradient_value = gradient_qkv + qkv_offset(shape, b, s, head, 2);
                    REAL logsum = logsums[(b * shape->heads + head) * shape->sequence + t];
                    REAL weight = (REAL)exp(scale * dot(query, key, width) - logsum);
                    REAL gradient_score = scale * weight * (dot(gradient_out + row, value, width) - mean);
                    for (size_t d = 0; d < width; d++) {
                        gradient_query[d] += gradient_score * key[d];
                        gradient_key[d] += gradient_score * query[d];
                        gradient_value[d] += weight * gradient_out[row + d];
                    }
                }
            }
}

/* ---- embedding ---- */

static void reference_embedding_forward(struct device *device, size_t batch, size_t sequence, size_t width,
                                        size_t first_position, const int32_t *tokens, const void *table_,
                                        const void *positions_, void *out_)
{
    const REAL *table = table_, *positions = positions_;
    REAL *out = out_;
    for (size_t row = 0; row < batch * sequence; row++)
        for (size_t j = 0; j < width; j++) {
            out[row * width + j] = tokens[row] < 0 ? 0 : table[(size_t)tokens[row] * width + j];
            if (positions)
                out[row * width + j] += positions[(first_position + row % sequence) * width + j];
        }
}

static void reference_embedding_backward(struct device *device, size_t batch, size_t sequence, size_t width,
                                         const int32_t *tokens, const void *gradient_out_, void *gradient_table_,
                                         void *gradient_positions_)
{
    const REAL *gradient_out = gradient_out_;
    REAL *gradient_table = gradient_table_, *gradient_positions = gradient_positions_;
    if (gradient_positions)
        memset(gradient_positions, 0, sequence * width * sizeof(REAL));
    for (size_t row = 0; row < batch * sequence; row++)
        for (size_t j = 0; j < width; j++) {
            if (tokens[row] >= 0)
                gradient_table[(size_t)tokens[row] * width + j] += gradient_out[row * width + j];
            if (gradient_positions)
                gradient_positions[row % sequence * width + j] += gradient_out[row * width + j];
        }
}

#include "training/tensor/internal/reference_loss.h"

#include "training/tensor/internal/reference_images.h"

weft_status REFERENCE_OPEN(enum kernel_set set, int threads, struct device **device, struct error *error)
{
    struct device *reference = malloc(sizeof *reference);
    if (!reference)
        return error_memory(error, sizeof *reference, "a device");
    *reference = (struct device){
        .name = REFERENCE_NAME,
        .type = REAL_TYPE,
        .activations = REAL_TYPE,
        .threads = 1,
        .kernels = "plain C",
        .peak = reference_peak,
        .close = reference_close,
        .finish = reference_finish,
        .allocate = reference_allocate,
        .release = reference_release,
        .write = reference_copy,
        .read = reference_copy,
        .copy = reference_copy,
        .fill = reference_fill,
        .copy_columns = reference_copy_columns,
        .add = reference_add,
        .add_branch = reference_add_branch,
        .dropout = reference_dropout,
        .dropout_to_activations = reference_dropout_to_activations,
        .dropout_add_branch = reference_dropout_add_branch,
        .to_activations = reference_to_activations,
        .from_activations = reference_from_activations,
        .scale = reference_scale,
        .gelu_forward = reference_gelu_forward,
        .gelu_erf_forward = reference_gelu_erf_forward,
        .tanh_forward = reference_tanh_forward,
        .tanh_backward = reference_tanh_backward,
        .adamw = reference_adamw,
        .adamw_direction = reference_adamw_direction,
        .sgd = reference_sgd,
        .combine = reference_combine,
        .sum_of_squares = reference_sum_of_squares,
        .column_sums = reference_column_sums,
        .matmul = reference_matmul,
        .layer_norm_forward = reference_layer_norm_forward,
        .layer_norm_backward = reference_layer_norm_backward,
        .stream_norm_forward = reference_layer_norm_forward,
        .stream_norm_backward = reference_layer_norm_backward,
        .rms_norm_forward = reference_rms_norm_forward,
        .rms_norm_backward = reference_rms_norm_backward,
        .gelu_backward = reference_gelu_backward,
        .gelu_erf_backward = reference_gelu_erf_backward,
        .swiglu_forward = reference_swiglu_forward,
        .swiglu_backward = reference_swiglu_backward,
        .rotary = reference_rotary,
        .attention_forward = reference_attention_forward,
        .attention_backward = reference_attention_backward,
        .embedding_forward = reference_embedding_forward,
        .embedding_backward = reference_embedding_backward,
        .gather_rows = reference_gather_rows,
        .scatter_rows = reference_scatter_rows,
        .cross_entropy = reference_cross_entropy,
        .class_sums = reference_class_sums,
        .divided_cross_entropy = reference_divided_cross_entropy,
    };
    reference_images_put(reference);
    *device = reference;
    return WEFT_OK;
}
