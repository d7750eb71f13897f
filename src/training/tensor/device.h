/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A device: a table of numeric kernels that begins with its name and element type.
 *
 * Models call kernels through this table only, so that the same forward and backward run in f32 on the processor's fast
 * path ("cpu"), in mixed precision ("cpu-bf16", "cpu-f16"), in plain C in double precision ("reference", for gradient checks) or
 * in plain C in single precision ("reference-f32", which the fast path is tested against). Another device is a library
 * that fills the same table.
 *
 *     struct device *device;
 *     weft_status status = device_open("cpu", 1, &device, error);
 *     device->matmul(device, &(struct matmul){.rows = 64, .columns = 128, .inner = 32, .a = x, .b = w, .c = y});
 *     status = device->finish(device, error);
 *     device->close(device);
 *
 * ## Arrays
 *
 * `void *` arrays hold elements of `type`, or, where marked [a], of `activations`, the type of arrays inside a layer: on "cpu-bf16" that is bf16 and on "cpu-f16" f16, with weights, their gradients, the residual stream and statistics
 * in f32 and all sums in f32 (Micikevicius et al. 2018, "Mixed precision training"; Kalamkar et al. 2019, "A study of
 * bfloat16"); elsewhere both types are the same. Token and class numbers are int32_t; statistics that leave the device
 * are double. Matrices are row-major; `rows x width` means `rows` rows of `width` elements without gaps unless a stride
 * is given. Arrays of one call must not overlap except where marked "in place". Any alignment gives the same bits; 64
 * bytes is fastest.
 *
 * ## Errors
 *
 * Kernels return nothing: they are queued in order, as on a stream, and finish() returns the first failure. Results
 * after a failure are undefined. The caller is responsible for sizes, and for token and class numbers within bounds.
 *
 * ## Same bits
 *
 * The same kernel with the same shape, values and kernel set (training/tensor/kernel_set.h) gives the same bits, wherever the
 * arrays lie and on any number of threads. Kernels marked "elementwise" give each element the same bits however a range
 * is cut into calls and threads.
 *
 * ## Threads
 *
 * A device belongs to one thread at a time; several devices may be used by several threads of a process at once. A
 * device opened with `threads` > 1 runs its kernels on that many OpenMP threads of the caller.
 */
#ifndef WEFT_TRAINING_TENSOR_DEVICE_H
#define WEFT_TRAINING_TENSOR_DEVICE_H

#include "base/error.h"
#include "training/tensor/images.h"
#include "training/tensor/kernel_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** c = a b + bias, or c += a b + bias, where a, b [a] and, unless `wide`, c [a] are activations. A stride is the
 * distance in elements of two stored rows; 0: no gaps. */
struct matmul {
    size_t rows;      /**< of c, and of a after transposition */
    size_t columns;   /**< of c, and of b after transposition */
    size_t inner;     /**< columns of a and rows of b after transposition */
    bool transpose_a; /**< a is stored inner x rows */
    bool transpose_b; /**< b is stored columns x inner */
    bool accumulate;  /**< add to what is in c; otherwise c is overwritten */
    bool wide;        /**< c is of the device's `type` */
    const void *a;
    const void *b;
    const void *bias; /**< `columns` elements added to every row; NULL: none; not together with accumulate */
    void *c;
    size_t stride_a;
    size_t stride_b;
    size_t stride_c;
};

/**
 * Multi-head self-attention of `batch` sequences (Vaswani et al. 2017, "Attention is all you need"):
 * out = softmax(q k' / sqrt(head_width)) v for each head; causal: position t sees positions up to t only.
 *
 * With fewer heads of keys and values than of queries, each of them serves heads / kv_heads neighboring heads of
 * queries (Ainslie et al. 2023, "GQA").
 *
 * Rows are positions: row b x sequence + t. A row of `qkv` holds the heads' queries, then the kv_heads' keys, then
 * their values, each of head_width elements; a row of `out` holds heads x head_width.
 */
struct attention {
    size_t batch;
    size_t sequence;
    size_t heads;
    size_t kv_heads; /**< a divisor of heads */
    size_t head_width;
    bool causal;
    const int32_t *lengths; /**< keys of each sequence, from its first: at least 1; those after them are padding that no
                               query sees. NULL: all. Not together with causal */
    size_t first;           /**< forward only: compute positions first to sequence - 1; those before are unchanged */
};

/** Elements in a row of qkv. */
static inline size_t attention_row(const struct attention *shape)
{
    return (shape->heads + 2 * shape->kv_heads) * shape->head_width;
}

/**
 * Rotary positions (Su et al. 2021, "RoFormer"), as in Llama's public weights: the pair of each head's elements i and
 * i + head_width / 2 is rotated by the angle position x base^(-2 i / head_width).
 *
 * The rows are positions first to first + sequence - 1 of each of `batch` sequences.
 */
struct rotary {
    size_t batch;
    size_t sequence;
    size_t first;
    size_t heads;      /**< that are rotated: the first ones of a row */
    size_t head_width; /**< even */
    size_t stride;     /**< elements of a row */
    double base;
    bool back; /**< rotate the other way: the backward pass */
};

/**
 * Dropout of rows between layers: each element is made 0 with probability `share`, and divided by 1 - share otherwise.
 * training/tensor/dropout.h defines which. Row i of a call is row r = first + i of a micro-batch, position r mod sequence
 * of sample number sample + r / sequence.
 */
struct dropout {
    double share;    /**< 0 <= share < 1; taken to the nearest multiple of 2^-16 */
    uint64_t seed;   /**< of the run */
    uint64_t sample; /**< number of the micro-batch's first sample within the run */
    uint16_t layer;  /**< number of the layer */
    size_t sequence; /**< rows of a sample; below 2^32 */
    size_t first;    /**< rows of the micro-batch before those of the call */
};

/**
 * Cross entropy over classes that are divided over ranks. Each rank has the logits of neighboring classes. It reduces
 * them to struct class_sums of each row, which the ranks exchange (training/tensor/class_sums.h).
 */
struct divided_classes {
    size_t rows;
    size_t classes; /**< of this rank */
    size_t all;     /**< of all ranks */
    size_t ranks;
    size_t stride; /**< elements of a row of logits */
    const int32_t
        *targets; /**< counted from this rank's first class; those of other ranks are outside of its classes */
    double smoothing, scale; /**< as for cross_entropy() */
};

/** Some of the logits of a row. */
struct class_sums {
    double largest;
    double exponentials; /**< sum of e^(logit - largest) */
    double sum;          /**< of the logits; 0 without label smoothing */
    double at_target;    /**< the target's logit; 0 if it is not one of them */
    double right;        /**< 1: the target is the first of the largest logits; otherwise 0 */
};

/** Some rows of an array of batch x sequence rows: `count` of each sample. */
struct row_choice {
    size_t batch;
    size_t sequence;
    size_t width;
    size_t count;
    const int32_t *positions; /**< batch x count: numbers of rows within the sample, which may repeat; NULL: the first
                                 `count` */
};

/** One step of AdamW; the formula is in training/tensor/adamw.h. */
struct adamw {
    double rate;           /**< learning rate of this step */
    double beta1;          /**< decay of the first moment */
    double beta2;          /**< decay of the second moment */
    double epsilon;        /**< added to the root of the second moment */
    double weight_decay;   /**< decoupled: parameter x rate x weight_decay is subtracted */
    double correction1;    /**< 1 / (1 - beta1^step), steps numbered from 1 */
    double correction2;    /**< 1 / (1 - beta2^step) */
    double gradient_scale; /**< the gradient is multiplied by this first: averaging and clipping in one */
};

/** One step of stochastic gradient descent; the formula is in training/optimizer/optimizer.h. */
struct sgd {
    double rate;
    double momentum;
    double weight_decay;
    double gradient_scale;
};

/** In place of a target: nothing is predicted there. The row's loss and gradient are 0. */
#define DEVICE_NO_TARGET INT32_MIN

/** Elements in one block of sum_of_squares(); see training/tensor/tree.h. */
#define DEVICE_SQUARES_BLOCK 4096

struct device {
    const char *name;      /**< "cpu" */
    weft_type type;        /**< of elements: WEFT_F32 or WEFT_F64 */
    weft_type activations; /**< `type`, WEFT_BF16 or WEFT_F16 */
    int threads;           /**< compute threads of one kernel */
    const char *kernels;   /**< name of the kernel set ("avx512") */

    /** Peak floating-point operations per second of the device's threads, each on its own core: the better of independent
     * fused multiply-adds and a large matrix product, of activations. Takes some hundred milliseconds. */
    double (*peak)(struct device *device);

    /* ---- opening and memory ---- */

    /** Free the device and everything it keeps. */
    void (*close)(struct device *device);
    /** Wait for all kernels; returns the first failure since the last finish(), and clears it. */
    weft_status (*finish)(struct device *device, struct error *error);
    /** `bytes` of zeroed memory (touched, aligned to 64 bytes) that kernels can use; NULL with a message on failure.
     */
    void *(*allocate)(struct device *device, size_t bytes, const char *what, struct error *error);
    /** Free memory of allocate(); NULL is allowed. */
    void (*release)(struct device *device, void *memory);
    /** Copy `bytes` from host memory to the device's, or the other way, or within the device; complete on return.
     * Pointers may be NULL where there are none. */
    void (*write)(struct device *device, void *to, const void *from_host, size_t bytes);
    void (*read)(struct device *device, void *to_host, const void *from, size_t bytes);
    void (*copy)(struct device *device, void *to, const void *from, size_t bytes);

    /* ---- vectors, elementwise ---- */

    /** x = value. */
    void (*fill)(struct device *device, size_t count, double value, void *x);
    /** to = from, `rows` rows of `width` elements, which begin `stride_from` and `stride_to` elements apart. */
    void (*copy_columns)(struct device *device, size_t rows, size_t width, const void *from, size_t stride_from,
                         void *to, size_t stride_to);
    /** out = a + b; out may be a or b. */
    void (*add)(struct device *device, size_t count, const void *a, const void *b, void *out);
    /** y = x + branch [a]; y may be x. */
    void (*add_branch)(struct device *device, size_t count, const void *x, const void *branch, void *y);
    /** x = dropped(x), of `rows` rows of `width` elements, which is at most 2^19; in place. */
    void (*dropout)(struct device *device, const struct dropout *dropout, size_t rows, size_t width, void *x);
    /** out [a] = dropped(x), rounded: the gradient of the branch below. */
    void (*dropout_to_activations)(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                                   const void *x, void *out);
    /** y = x + dropped(branch [a]); y may be x. */
    void (*dropout_add_branch)(struct device *device, const struct dropout *dropout, size_t rows, size_t width,
                               const void *x, const void *branch, void *y);
    /** out [a] = x, rounded. */
    void (*to_activations)(struct device *device, size_t count, const void *x, void *out);
    /** out = x [a]. */
    void (*from_activations)(struct device *device, size_t count, const void *x, void *out);
    /** x = x factor. */
    void (*scale)(struct device *device, size_t count, double factor, void *x);
    /** out [a] = gelu(x [a]), by tanh (Hendrycks and Gimpel 2016, eq. 2 as GPT-2 uses it). */
    void (*gelu_forward)(struct device *device, size_t count, const void *x, void *out);
    /** out [a] = x Phi(x) with Phi the normal distribution, of x [a]: GELU itself, as BERT has it (Hendrycks and Gimpel
     * 2016, eq. 1). */
    void (*gelu_erf_forward)(struct device *device, size_t count, const void *x, void *out);
    /** x [a] = tanh(x), in place. */
    void (*tanh_forward)(struct device *device, size_t count, void *x);
    /** gradient [a] = gradient (1 - out^2), in place, with out [a] that of tanh_forward(). */
    void (*tanh_backward)(struct device *device, size_t count, const void *out, void *gradient);
    /** One optimizer step on `count` elements, with the given step's constants; unless it is NULL, as_activations [a]
     * receives the new parameters, rounded. */
    void (*adamw)(struct device *device, const struct adamw *step, size_t count, void *parameters,
                  const void *gradients, void *first_moments, void *second_moments, void *as_activations);

    /** gradients = the direction of AdamW's step with weight_decay times the parameters added; moments as in adamw().
     */
    void (*adamw_direction)(struct device *device, const struct adamw *step, size_t count, const void *parameters,
                            void *gradients, void *first_moments, void *second_moments);
    void (*sgd)(struct device *device, const struct sgd *step, size_t count, void *parameters, const void *gradients,
                void *moments);
    /** out = a x + b y; out may be x or y. */
    void (*combine)(struct device *device, size_t count, double a, const void *x, double b, const void *y, void *out);

    /* ---- sums ---- */

    /**
     * sums[i] = sum of squares of block i of DEVICE_SQUARES_BLOCK elements (the last may be shorter), in double, each
     * block in one fixed order: the same bits whichever rank computes it, with any number of threads.
     */
    void (*sum_of_squares)(struct device *device, size_t count, const void *x, double *sums);
    /** out[j] = sum over rows of x[i][j] [a]. */
    void (*column_sums)(struct device *device, size_t rows, size_t width, const void *x, void *out);

    /* ---- layers ---- */

    void (*matmul)(struct device *device, const struct matmul *arguments);

    /**
     * out [a] = (x - mean) reciprocal gain + bias for each row, with reciprocal = 1 / sqrt(variance + epsilon) (Ba,
     * Kiros, Hinton 2016, "Layer normalization"). `means` and `reciprocals`, one a row, are kept for the backward pass.
     */
    void (*layer_norm_forward)(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                               const void *gain, const void *bias, void *out, void *means, void *reciprocals);
    /**
     * From gradient_out [a]. Adds the gradient of x to `gradient_x` (overwrites it if `accumulate` is false);
     * overwrites gradient_gain and gradient_bias.
     */
    void (*layer_norm_backward)(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                const void *x, const void *gain, const void *means, const void *reciprocals,
                                bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias);

    /** As layer_norm_forward() and layer_norm_backward(), but out and gradient_out are of the device's `type`, for norms
     * whose output is the residual stream. gradient_x may be gradient_out, without `accumulate`. */
    void (*stream_norm_forward)(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                                const void *gain, const void *bias, void *out, void *means, void *reciprocals);
    void (*stream_norm_backward)(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                 const void *x, const void *gain, const void *means, const void *reciprocals,
                                 bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias);

    /**
     * out [a] = x reciprocal gain for each row, with reciprocal = 1 / sqrt(mean of squares + epsilon) (Zhang and
     * Sennrich 2019, "Root mean square layer normalization").
     */
    void (*rms_norm_forward)(struct device *device, size_t rows, size_t width, double epsilon, const void *x,
                             const void *gain, void *out, void *reciprocals);
    /** As layer_norm_backward(). */
    void (*rms_norm_backward)(struct device *device, size_t rows, size_t width, const void *gradient_out, const void *x,
                              const void *gain, const void *reciprocals, bool accumulate, void *gradient_x,
                              void *gradient_gain);

    /** gradient [a] = gradient gelu'(x [a]) in place, and its sums over rows (the bias's gradient) in gradient_bias,
     * unless that is NULL. */
    void (*gelu_backward)(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                          void *gradient_bias);
    /** The same for gelu_erf_forward(). */
    void (*gelu_erf_backward)(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                              void *gradient_bias);

    /**
     * out [a] = silu(gate) up, with silu(x) = x / (1 + e^-x) (Shazeer 2020, "GLU variants improve transformer"); a row
     * of `gate_up` [a] holds `width` elements of gate, then of up.
     */
    void (*swiglu_forward)(struct device *device, size_t rows, size_t width, const void *gate_up, void *out);
    /** From gradient_out [a]. Overwrites gradient_gate_up [a], which may be gate_up. */
    void (*swiglu_backward)(struct device *device, size_t rows, size_t width, const void *gate_up,
                            const void *gradient_out, void *gradient_gate_up);

    /** Rotate the queries and keys in x [a], in place. */
    void (*rotary)(struct device *device, const struct rotary *shape, void *x);

    /**
     * From qkv [a] to out [a]. `logsums` (batch x heads x sequence elements: log of the sum of exponentials of each row
     * of scores) is kept for the backward pass; NULL where there will be none.
     */
    void (*attention_forward)(struct device *device, const struct attention *shape, const void *qkv, void *out,
                              void *logsums);
    /** From gradient_out [a]. Overwrites gradient_qkv [a]. */
    void (*attention_backward)(struct device *device, const struct attention *shape, const void *qkv, const void *out,
                               const void *logsums, const void *gradient_out, void *gradient_qkv);

    /** out[b x sequence + t] = table[tokens[b x sequence + t]] + positions[first_position + t]; positions may be NULL.
     * The row of a negative token, whose table another rank has, is 0 in place of the table's. */
    void (*embedding_forward)(struct device *device, size_t batch, size_t sequence, size_t width, size_t first_position,
                              const int32_t *tokens, const void *table, const void *positions, void *out);
    /** Adds to rows of gradient_table, except for negative tokens; overwrites the first `sequence` rows of gradient_positions unless that is NULL.
     */
    void (*embedding_backward)(struct device *device, size_t batch, size_t sequence, size_t width,
                               const int32_t *tokens, const void *gradient_out, void *gradient_table,
                               void *gradient_positions);

    /** out [a] = the rows of x that are chosen, sample by sample. */
    void (*gather_rows)(struct device *device, const struct row_choice *choice, const void *x, void *out);
    /** Adds the rows of `gradient` [a] to those rows of x, in order. */
    void (*scatter_rows)(struct device *device, const struct row_choice *choice, const void *gradient, void *x);

    /**
     * losses[i] = -log softmax(logits [a] of row i)[targets[i]], in double. With label smoothing, a share `smoothing`
     * of the target is spread evenly over all classes (Szegedy et al. 2016, "Rethinking the Inception architecture").
     * Where `scale` is not 0, the row of logits is replaced by its gradient times `scale`: (softmax - target) scale;
     * with 0 the logits are left alone. A target of DEVICE_NO_TARGET makes the loss and the gradient 0.
     */
    void (*cross_entropy)(struct device *device, size_t rows, size_t classes, size_t stride, const int32_t *targets,
                          double smoothing, double scale, void *logits, double *losses);

    /** sums[i] = what the logits [a] of this rank in row i come to; with DEVICE_NO_TARGET those of a single logit of 0,
     * and at_target CLASS_SUMS_NO_TARGET. */
    void (*class_sums)(struct device *device, const struct divided_classes *shape, const void *logits,
                       struct class_sums *sums);
    /** As cross_entropy(), from the sums of all ranks: rank 0's of all rows, then rank 1's and so on. The same losses on
     * every rank; logits, and gradients in their place, are this rank's. */
    void (*divided_cross_entropy)(struct device *device, const struct divided_classes *shape,
                                  const struct class_sums *sums, void *logits, double *losses);

    /* ---- images; training/tensor/images.h has the formulas of batch norms, and what d is ---- */

    /** out [a] = pixels, rounded. */
    void (*pixels_to_activations)(struct device *device, size_t count, const float *pixels, void *out);

    /**
     * From x [a], or the output of the batch norm `before` of x unless that is NULL, and weights [a] to out [a]. Unless
     * `after` is NULL or frozen, sets its means, variances and reciprocals, those of out.
     */
    void (*convolution_forward)(struct device *device, const struct convolution *shape, const void *x,
                                const struct batch_norm *before, const void *weights, void *out,
                                const struct batch_norm *after);
    /**
     * From gradient [a], that of out, or the slope d of the batch norm `after` of out [a] unless that is NULL. Overwrites
     * gradient_x [a] with the gradient of x, or with the slope of `before` of x [a] unless that is NULL, whose
     * gradient_gain and gradient_bias it sets. `out` and `x` may be NULL where there is no batch norm.
     */
    void (*convolution_backward_input)(struct device *device, const struct convolution *shape, const void *weights,
                                       const void *gradient, const void *out, const struct batch_norm *after,
                                       const void *x, const struct batch_norm *before, void *gradient_x);
    /** Overwrites gradient_weights; the other arguments are those of convolution_backward_input(). */
    void (*convolution_backward_weights)(struct device *device, const struct convolution *shape, const void *x,
                                         const struct batch_norm *before, const void *gradient, const void *out,
                                         const struct batch_norm *after, void *gradient_weights);

    /** reciprocals = 1 / sqrt(variances + epsilon): those of a frozen batch norm. */
    void (*batch_norm_reciprocals)(struct device *device, size_t channels, double epsilon, const void *variances,
                                   void *reciprocals);
    /**
     * The statistics of `parts` micro-batches of `rows` rows each as one: sets means, variances and reciprocals of `norm`.
     * `statistics` has means and variances of each part in order, as convolution_forward() sets them: `stride` elements for
     * the means, then as many for the variances. The first norm->channels of each are read.
     */
    void (*batch_norm_join)(struct device *device, const struct batch_norm *norm, size_t rows, size_t parts,
                            size_t stride, const void *statistics);
    /** out = rectifier(n gain + bias + x), where n is y [a] normalized; x may be NULL: 0, and out may be x. */
    void (*batch_norm_forward)(struct device *device, const struct batch_norm *norm, size_t rows, const void *y,
                               const void *x, void *out);
    /**
     * gradient = gradient rectifier'(n gain + bias + x) in place: the gradient of x. That is the batch norm's slope, too:
     * d [a] receives it, rounded. Sets gradient_gain and gradient_bias. d may be `gradient` where both types are the same.
     */
    void (*batch_norm_backward)(struct device *device, const struct batch_norm *norm, size_t rows, const void *y,
                                const void *x, void *gradient, void *d);

    /**
     * From x [a], or the output of the batch norm `before` of x unless that is NULL, to out. `places`, one for each element
     * of out, are kept for the backward pass: r kernel + s of the first of the largest elements of the window. NULL where
     * there will be none.
     */
    void (*max_pool_forward)(struct device *device, const struct max_pool *shape, const void *x,
                             const struct batch_norm *before, void *out, uint8_t *places);
    /** From the gradient of out. Overwrites gradient_x [a], as convolution_backward_input() does. */
    void (*max_pool_backward)(struct device *device, const struct max_pool *shape, const void *gradient,
                              const uint8_t *places, const void *x, const struct batch_norm *before, void *gradient_x);
    /** As max_pool_forward(), one row of out for each image. */
    void (*average_pool_forward)(struct device *device, const struct average_pool *shape, const void *x,
                                 const struct batch_norm *before, void *out);
    void (*average_pool_backward)(struct device *device, const struct average_pool *shape, const void *gradient,
                                  const void *x, const struct batch_norm *before, void *gradient_x);

    /**
     * As cross_entropy(), of mixed samples (Zhang et al. 2018, "mixup"): row i has the targets 2 i and 2 i + 1, weighted by
     * shares 2 i and 2 i + 1, which add up to 1. Label smoothing spreads a share `smoothing` of both evenly over all classes.
     * Unless NULL, right[i] = 1 where the first of the largest logits is target 2 i, otherwise 0.
     */
    void (*mixed_cross_entropy)(struct device *device, size_t rows, size_t classes, size_t stride,
                                const int32_t *targets, const float *shares, double smoothing, double scale,
                                void *logits, double *losses, double *right);
};

/** The names of the devices: "cpu", "cpu-bf16", "cpu-f16", "reference", "reference-f32". Ends with NULL. */
extern const char *const device_names[];

/** The fast device with activations of WEFT_F32, WEFT_BF16 or WEFT_F16. */
const char *device_cpu_name(weft_type activations);

/**
 * Open the device called `name` with `threads` compute threads (at least 1; the reference devices use one).
 * An unknown name is WEFT_ERROR_ARGUMENT and the message lists the names.
 */
weft_status device_open(const char *name, int threads, struct device **device, struct error *error);

/**
 * As device_open(), with the kernels of `set`, or of the highest set below it that the device's type uses. The
 * reference devices have one set. A set that this process cannot use (see kernel_set_best()) is WEFT_ERROR_ARGUMENT.
 *
 * The devices of a process should all use the same set: oneDNN can be limited to a lower one only before its first
 * product in the process. After that, the first product fails, and finish() returns WEFT_ERROR_STATE.
 */
weft_status device_open_with(const char *name, enum kernel_set set, int threads, struct device **device,
                             struct error *error);

#endif
