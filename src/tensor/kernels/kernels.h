/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The fast f32 kernels of the processor, one table for each instruction set.
 *
 * kernels.c is compiled once for each, with the flags of that set, and kernels_select() picks one at run time. A kernel
 * here runs on the calling thread over the range it is given; tensor/cpu.c divides the work among threads. What a
 * kernel computes is told in tensor/device.h; this table only adds how a range is cut. All are free of state and safe
 * from any thread.
 */
#ifndef WEFT_TENSOR_KERNELS_KERNELS_H
#define WEFT_TENSOR_KERNELS_KERNELS_H

#include "tensor/device.h"

struct kernels {
    const char *name; /**< "avx512" */

    /** So many rounds of multiply-adds in registers; returns how many floating-point operations that were. */
    double (*multiply_adds)(size_t rounds);

    void (*fill)(size_t count, float value, float *x);
    void (*add)(size_t count, const float *a, const float *b, float *out);
    void (*scale)(size_t count, float factor, float *x);
    void (*gelu_forward)(size_t count, const float *x, float *out);
    void (*adamw)(const struct adamw *step, size_t count, float *parameters, const float *gradients,
                  float *first_moments, float *second_moments);
    double (*sum_of_squares)(size_t count, const float *x);

    /** Sums of columns [first, last) over all rows. */
    void (*column_sums)(size_t rows, size_t width, size_t first, size_t last, const float *x, float *out);

    void (*layer_norm_forward)(size_t rows, size_t width, float epsilon, const float *x, const float *gain,
                               const float *bias, float *out, float *means, float *reciprocals);
    /** gradient_gain and gradient_bias receive the sums over these rows. */
    void (*layer_norm_backward)(size_t rows, size_t width, const float *gradient_out, const float *x, const float *gain,
                                const float *means, const float *reciprocals, bool accumulate, float *gradient_x,
                                float *gradient_gain, float *gradient_bias);
    void (*rms_norm_forward)(size_t rows, size_t width, float epsilon, const float *x, const float *gain, float *out,
                             float *reciprocals);
    void (*rms_norm_backward)(size_t rows, size_t width, const float *gradient_out, const float *x, const float *gain,
                              const float *reciprocals, bool accumulate, float *gradient_x, float *gradient_gain);
    /** gradient_bias receives the sums over these rows. */
    void (*gelu_backward)(size_t rows, size_t width, const float *x, float *gradient, float *gradient_bias);
    void (*swiglu_forward)(size_t rows, size_t width, const float *gate_up, float *out);
    void (*swiglu_backward)(size_t rows, size_t width, const float *gate_up, const float *gradient_out,
                            float *gradient_gate_up);
    /** One row; `turns` holds head_width / 2 cosines, then as many sines. */
    void (*rotary)(size_t heads, size_t head_width, const float *turns, bool back, float *row);
    void (*cross_entropy)(size_t rows, size_t classes, size_t stride, const int32_t *targets, float smoothing,
                          float scale, float *logits, double *losses);

    /** Floats of scratch that one attention call below needs. */
    size_t (*attention_scratch)(const struct attention *shape);
    /** One head of queries of one sequence. Pointers are to whole arrays. `scratch` is aligned to 64 bytes. */
    void (*attention_forward)(const struct attention *shape, size_t sequence, size_t head, const float *qkv, float *out,
                              float *logsums, float *scratch);
    /** One head of keys and values, with all heads of queries that it serves. */
    void (*attention_backward)(const struct attention *shape, size_t sequence, size_t kv_head, const float *qkv,
                               const float *out, const float *logsums, const float *gradient_out, float *gradient_qkv,
                               float *scratch);
};

extern const struct kernels kernels_baseline; /**< what the compiler targets by itself; x86-64: SSE2 */
#if defined(__x86_64__)
extern const struct kernels kernels_avx2;   /**< x86-64-v3: AVX2 with fused multiply-add */
extern const struct kernels kernels_avx512; /**< x86-64-v4 */
#endif

/** The tables that this processor can run, the fastest last; `count` receives how many. */
const struct kernels *const *kernels_supported(size_t *count);

#endif
