/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The fast kernels of the processor, one table for each instruction set and type of activations, which are the arrays
 * of void: floats, bf16 or f16. All arithmetic is in floats.
 *
 * kernels.c is compiled once for each, with the flags of that set, and kernels_supported() returns those that can run
 * here. A kernel runs on the calling thread over the range it is given; the files of training/tensor/cpu/ divide the work
 * among threads. training/tensor/device.h defines what a kernel computes; this table only adds how a range is cut. All
 * are stateless and thread-safe.
 */
#ifndef WEFT_TRAINING_TENSOR_KERNELS_KERNELS_H
#define WEFT_TRAINING_TENSOR_KERNELS_KERNELS_H

#include "training/tensor/device.h"
#include "training/tensor/kernel_set.h"
#include "training/tensor/kernels/images.h"

struct kernels {
    const char *name;      /**< "avx512" */
    weft_type activations; /**< WEFT_F32, WEFT_BF16 or WEFT_F16 */

    /** `rounds` rounds of multiply-adds of activations in registers, with sums in floats; returns the number of
     * floating-point operations. */
    double (*multiply_adds)(size_t rounds);

    void (*fill)(size_t count, float value, float *x);
    void (*add)(size_t count, const float *a, const float *b, float *out);
    void (*add_branch)(size_t count, const float *x, const void *branch, float *y);
    /** Rows `first` to first + rows - 1 of the micro-batch; the arrays begin with row `first`. */
    void (*dropout)(const struct dropout *dropout, size_t first, size_t rows, size_t width, float *x);
    void (*dropout_to_activations)(const struct dropout *dropout, size_t first, size_t rows, size_t width,
                                   const float *x, void *out);
    void (*dropout_add_branch)(const struct dropout *dropout, size_t first, size_t rows, size_t width, const float *x,
                               const void *branch, float *y);
    void (*to_activations)(size_t count, const float *x, void *out);
    void (*from_activations)(size_t count, const void *x, float *out);
    void (*scale)(size_t count, float factor, float *x);
    void (*gelu_forward)(size_t count, const void *x, void *out);
    void (*gelu_erf_forward)(size_t count, const void *x, void *out);
    void (*tanh_forward)(size_t count, void *x);
    void (*tanh_backward)(size_t count, const void *out, void *gradient);
    void (*adamw)(const struct adamw *step, size_t count, float *parameters, const float *gradients,
                  float *first_moments, float *second_moments);
    void (*adamw_direction)(const struct adamw *step, size_t count, const float *parameters, float *gradients,
                            float *first_moments, float *second_moments);
    void (*sgd)(const struct sgd *step, size_t count, float *parameters, const float *gradients, float *moments);
    void (*combine)(size_t count, float a, const float *x, float b, const float *y, float *out);
    double (*sum_of_squares)(size_t count, const float *x);

    /** Sums of columns [first, last) over all rows. */
    void (*column_sums)(size_t rows, size_t width, size_t first, size_t last, const void *x, float *out);

    void (*layer_norm_forward)(size_t rows, size_t width, float epsilon, const float *x, const float *gain,
                               const float *bias, void *out, float *means, float *reciprocals);
    /** gradient_gain and gradient_bias receive the sums over these rows. */
    void (*layer_norm_backward)(size_t rows, size_t width, const void *gradient_out, const float *x, const float *gain,
                                const float *means, const float *reciprocals, bool accumulate, float *gradient_x,
                                float *gradient_gain, float *gradient_bias);
    void (*stream_norm_forward)(size_t rows, size_t width, float epsilon, const float *x, const float *gain,
                                const float *bias, float *out, float *means, float *reciprocals);
    void (*stream_norm_backward)(size_t rows, size_t width, const float *gradient_out, const float *x,
                                 const float *gain, const float *means, const float *reciprocals, bool accumulate,
                                 float *gradient_x, float *gradient_gain, float *gradient_bias);
    void (*rms_norm_forward)(size_t rows, size_t width, float epsilon, const float *x, const float *gain, void *out,
                             float *reciprocals);
    void (*rms_norm_backward)(size_t rows, size_t width, const void *gradient_out, const float *x, const float *gain,
                              const float *reciprocals, bool accumulate, float *gradient_x, float *gradient_gain);
    /** gradient_bias receives the sums over these rows. */
    void (*gelu_backward)(size_t rows, size_t width, const void *x, void *gradient, float *gradient_bias);
    void (*gelu_erf_backward)(size_t rows, size_t width, const void *x, void *gradient, float *gradient_bias);
    void (*swiglu_forward)(size_t rows, size_t width, const void *gate_up, void *out);
    void (*swiglu_backward)(size_t rows, size_t width, const void *gate_up, const void *gradient_out,
                            void *gradient_gate_up);
    /** One row; `turns` holds head_width / 2 cosines, then as many sines. */
    void (*rotary)(size_t heads, size_t head_width, const float *turns, bool back, void *row);
    void (*cross_entropy)(size_t rows, size_t classes, size_t stride, const int32_t *targets, float smoothing,
                          float scale, void *logits, double *losses);
    /** Of one row; `shape` has its classes and its target. */
    struct class_sums (*class_sums)(const struct divided_classes *shape, size_t row, const void *logits);
    /** The gradient of one row in place, from the sums over all classes. */
    void (*class_gradient)(const struct divided_classes *shape, size_t row, const struct class_sums *all, void *logits);

    /** Floats of scratch that one attention call below needs. */
    size_t (*attention_scratch)(const struct attention *shape);
    /** One head of queries of one sequence. Pointers are to whole arrays. `scratch` is aligned to 64 bytes. */
    void (*attention_forward)(const struct attention *shape, size_t sequence, size_t head, const void *qkv, void *out,
                              float *logsums, float *scratch);
    /** One head of keys and values, with all heads of queries that it serves. */
    void (*attention_backward)(const struct attention *shape, size_t sequence, size_t kv_head, const void *qkv,
                               const void *out, const float *logsums, const void *gradient_out, void *gradient_qkv,
                               float *scratch);

    struct image_kernels images;
};

extern const struct kernels kernels_baseline; /**< the compiler's default target; x86-64: SSE2 */
extern const struct kernels kernels_baseline_bf16;
extern const struct kernels kernels_baseline_f16;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2; /**< x86-64-v3: AVX2 with fused multiply-add */
extern const struct kernels kernels_avx2_bf16;
extern const struct kernels kernels_avx2_f16;    /**< with F16C, as x86-64-v3 has */
extern const struct kernels kernels_avx512;      /**< x86-64-v4 */
extern const struct kernels kernels_avx512_bf16; /**< with AVX512_BF16 */
extern const struct kernels kernels_avx512_f16;
#endif

/** The tables for activations of this type (WEFT_F32, WEFT_BF16 or WEFT_F16) that this process can run, the fastest last;
 * `count` receives how many. */
const struct kernels *const *kernels_supported(weft_type activations, size_t *count);

#endif
