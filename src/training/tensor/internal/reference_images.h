/* SPDX-License-Identifier: Apache-2.0 */
/* The reference's kernels for images: a part of reference.h. */

/* ---- batch norm: the formulas of training/tensor/images.h ---- */

static REAL reference_normalized(const struct batch_norm *norm, size_t channel, REAL y)
{
    return (y - ((const REAL *)norm->means)[channel]) * ((const REAL *)norm->reciprocals)[channel];
}

static REAL reference_affine(const struct batch_norm *norm, size_t channel, REAL y)
{
    return reference_normalized(norm, channel, y) * ((const REAL *)norm->gain)[channel] +
           ((const REAL *)norm->bias)[channel];
}

static REAL reference_rectified(enum rectifier rectifier, REAL x)
{
    if (rectifier != RECTIFIER_NONE && x < 0)
        return 0;
    return rectifier == RECTIFIER_RELU6 && x > 6 ? 6 : x;
}

static bool reference_passes(enum rectifier rectifier, REAL x)
{
    return rectifier == RECTIFIER_NONE || (x > 0 && (rectifier == RECTIFIER_RELU || x < 6));
}

/* Element `channel` of what a kernel reads: x, or its batch norm's output. */
static REAL reference_input(const struct batch_norm *norm, size_t channel, REAL x)
{
    return norm ? reference_rectified(norm->rectifier, reference_affine(norm, channel, x)) : x;
}

/* The gradient of y from the slope d, or from itself. */
static REAL reference_gradient(const struct batch_norm *norm, size_t rows, size_t channel, REAL d, const REAL *y)
{
    if (!norm)
        return d;
    const REAL factor = ((const REAL *)norm->gain)[channel] * ((const REAL *)norm->reciprocals)[channel];
    if (norm->frozen)
        return factor * d;
    const REAL gain = ((const REAL *)norm->gradient_gain)[channel], bias = ((const REAL *)norm->gradient_bias)[channel];
    return factor * (d - (bias + reference_normalized(norm, channel, *y) * gain) / (REAL)rows);
}

static void reference_statistics(const struct batch_norm *norm, size_t rows, const REAL *y)
{
    REAL *means = norm->means, *variances = norm->variances, *reciprocals = norm->reciprocals;
    for (size_t j = 0; j < norm->channels; j++) {
        double mean = 0, scatter = 0;
        for (size_t i = 0; i < rows; i++)
            mean += y[i * norm->channels + j];
        mean /= (double)rows;
        for (size_t i = 0; i < rows; i++)
            scatter += (y[i * norm->channels + j] - mean) * (y[i * norm->channels + j] - mean);
        means[j] = (REAL)mean;
        reciprocals[j] = (REAL)(1 / sqrt(scatter / (double)rows + norm->epsilon));
        if (variances)
            variances[j] = (REAL)(scatter / (rows > 1 ? (double)rows - 1 : 1));
    }
}

/* Turn the gradient of a batch norm's output into its slope, in place, and sum up those of gain and bias. */
static void reference_slope(const struct batch_norm *norm, size_t rows, const REAL *y, REAL *gradient)
{
    REAL *gain = norm->gradient_gain, *bias = norm->gradient_bias;
    memset(gain, 0, norm->channels * sizeof *gain);
    memset(bias, 0, norm->channels * sizeof *bias);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < norm->channels; j++) {
            REAL *d = &gradient[i * norm->channels + j];
            if (!reference_passes(norm->rectifier, reference_affine(norm, j, y[i * norm->channels + j])))
                *d = 0;
            bias[j] += *d;
            gain[j] += *d * reference_normalized(norm, j, y[i * norm->channels + j]);
        }
}

static void reference_batch_norm_reciprocals(struct device *device, size_t channels, double epsilon,
                                             const void *variances, void *reciprocals)
{
    for (size_t j = 0; j < channels; j++)
        ((REAL *)reciprocals)[j] = (REAL)(1 / sqrt(((const REAL *)variances)[j] + epsilon));
}

static void reference_batch_norm_join(struct device *device, const struct batch_norm *norm, size_t rows, size_t parts,
                                      size_t stride, const void *statistics)
{
    const REAL *of_part = statistics;
    REAL *means = norm->means, *variances = norm->variances, *reciprocals = norm->reciprocals;
    const double all = (double)(rows * parts);
    for (size_t j = 0; j < norm->channels; j++) {
        double mean = 0, scatter = 0;
        for (size_t i = 0; i < parts; i++)
            mean += of_part[2 * i * stride + j] / (double)parts;
        for (size_t i = 0; i < parts; i++)
            scatter += of_part[(2 * i + 1) * stride + j] * ((double)rows - 1) +
                       (of_part[2 * i * stride + j] - mean) * (of_part[2 * i * stride + j] - mean) * (double)rows;
        means[j] = (REAL)mean;
        variances[j] = (REAL)(scatter / (all > 1 ? all - 1 : 1));
        reciprocals[j] = (REAL)(1 / sqrt(scatter / all + norm->epsilon));
    }
}

static void reference_batch_norm_forward(struct device *device, const struct batch_norm *norm, size_t rows,
                                         const void *y_, const void *x_, void *out_)
{
    const REAL *y = y_, *x = x_;
    REAL *out = out_;
    for (size_t i = 0; i < rows * norm->channels; i++)
        out[i] =
            reference_rectified(norm->rectifier, reference_affine(norm, i % norm->channels, y[i]) + (x ? x[i] : 0));
}

static void reference_batch_norm_backward(struct device *device, const struct batch_norm *norm, size_t rows,
                                          const void *y_, const void *x_, void *gradient_, void *d)
{
    const REAL *y = y_, *x = x_;
    REAL *gradient = gradient_;
    for (size_t i = 0; i < rows * norm->channels; i++)
        if (!reference_passes(norm->rectifier, reference_affine(norm, i % norm->channels, y[i]) + (x ? x[i] : 0)))
            gradient[i] = 0;
    struct batch_norm rectified = *norm;
    rectified.rectifier = RECTIFIER_NONE;
    reference_slope(&rectified, rows, y, gradient);
    if (d != gradient_)
        memcpy(d, gradient, rows * norm->channels * sizeof *gradient);
}

/* ---- convolution ---- */

/* One product of a convolution: elements of x, weights and out. */
struct reference_term {
    size_t x, weight, out;
    size_t input, output; /* channels */
};

/* All terms of a convolution, one after another: false after the last. `number` counts those outside of images, too. */
static bool reference_term_at(const struct convolution *shape, size_t number, struct reference_term *term, bool *within)
{
    const size_t height = convolution_height(shape), width = convolution_width(shape), kernel = shape->kernel,
                 group = convolution_group(shape);
    const size_t column = number % kernel, row = number / kernel % kernel;
    number /= kernel * kernel;
    const size_t input = number % group;
    number /= group;
    const size_t output = number % shape->outputs, position = number / shape->outputs;
    if (position == shape->batch * height * width)
        return false;
    const size_t image = position / (height * width), y = position / width % height * shape->stride + row,
                 x = position % width * shape->stride + column;
    *within = y >= shape->padding && y - shape->padding < shape->height && x >= shape->padding &&
              x - shape->padding < shape->width;
    term->input = shape->depthwise ? output : input;
    term->output = output;
    term->weight = ((output * group + input) * kernel + row) * kernel + column;
    term->out = position * shape->outputs + output;
    if (*within)
        term->x = ((image * shape->height + y - shape->padding) * shape->width + x - shape->padding) * shape->inputs +
                  term->input;
    return true;
}

static void reference_convolution_forward(struct device *device, const struct convolution *shape, const void *x_,
                                          const struct batch_norm *before, const void *weights_, void *out_,
                                          const struct batch_norm *after)
{
    const REAL *x = x_, *weights = weights_;
    REAL *out = out_;
    const size_t rows = convolution_rows_out(shape);
    struct reference_term term;
    bool within;
    memset(out, 0, rows * shape->outputs * sizeof *out);
    for (size_t i = 0; reference_term_at(shape, i, &term, &within); i++)
        if (within)
            out[term.out] += reference_input(before, term.input, x[term.x]) * weights[term.weight];
    if (after && !after->frozen)
        reference_statistics(after, rows, out);
}

static void reference_convolution_backward_input(struct device *device, const struct convolution *shape,
                                                 const void *weights_, const void *gradient_, const void *out_,
                                                 const struct batch_norm *after, const void *x,
                                                 const struct batch_norm *before, void *gradient_x_)
{
    const REAL *weights = weights_, *gradient = gradient_, *out = out_;
    REAL *gradient_x = gradient_x_;
    const size_t rows = convolution_rows_out(shape);
    struct reference_term term;
    bool within;
    memset(gradient_x, 0, convolution_rows_in(shape) * shape->inputs * sizeof *gradient_x);
    for (size_t i = 0; reference_term_at(shape, i, &term, &within); i++)
        if (within)
            gradient_x[term.x] +=
                weights[term.weight] *
                reference_gradient(after, rows, term.output, gradient[term.out], after ? &out[term.out] : NULL);
    if (before)
        reference_slope(before, convolution_rows_in(shape), x, gradient_x);
}

static void reference_convolution_backward_weights(struct device *device, const struct convolution *shape,
                                                   const void *x_, const struct batch_norm *before,
                                                   const void *gradient_, const void *out_,
                                                   const struct batch_norm *after, void *gradient_weights_)
{
    const REAL *x = x_, *gradient = gradient_, *out = out_;
    REAL *gradient_weights = gradient_weights_;
    const size_t rows = convolution_rows_out(shape);
    struct reference_term term;
    bool within;
    memset(gradient_weights, 0, convolution_weights(shape) * sizeof *gradient_weights);
    for (size_t i = 0; reference_term_at(shape, i, &term, &within); i++)
        if (within)
            gradient_weights[term.weight] +=
                reference_input(before, term.input, x[term.x]) *
                reference_gradient(after, rows, term.output, gradient[term.out], after ? &out[term.out] : NULL);
}

/* ---- pooling ---- */

/* The element of x that place `place` of a window of out is; false where it is outside of the image. */
static bool reference_window(const struct max_pool *shape, size_t out, size_t place, size_t *x)
{
    const size_t height = window_count(shape->height, shape->kernel, shape->stride, shape->padding),
                 width = window_count(shape->width, shape->kernel, shape->stride, shape->padding);
    const size_t position = out / shape->channels;
    const size_t row = position / width % height * shape->stride + place / shape->kernel,
                 column = position % width * shape->stride + place % shape->kernel;
    if (row < shape->padding || row - shape->padding >= shape->height || column < shape->padding ||
        column - shape->padding >= shape->width)
        return false;
    *x = ((position / (height * width) * shape->height + row - shape->padding) * shape->width + column -
          shape->padding) *
             shape->channels +
         out % shape->channels;
    return true;
}

static size_t reference_pooled(const struct max_pool *shape)
{
    return shape->batch * window_count(shape->height, shape->kernel, shape->stride, shape->padding) *
           window_count(shape->width, shape->kernel, shape->stride, shape->padding) * shape->channels;
}

static void reference_max_pool_forward(struct device *device, const struct max_pool *shape, const void *x_,
                                       const struct batch_norm *before, void *out_, uint8_t *places)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (size_t i = 0; i < reference_pooled(shape); i++) {
        size_t best = 0, at;
        out[i] = -INFINITY;
        for (size_t place = 0; place < shape->kernel * shape->kernel; place++) {
            if (!reference_window(shape, i, place, &at))
                continue;
            const REAL value = reference_input(before, i % shape->channels, x[at]);
            if (value > out[i] || (value != value && out[i] == out[i])) {
                out[i] = value;
                best = place;
            }
        }
        if (places)
            places[i] = (uint8_t)best;
    }
}

static void reference_max_pool_backward(struct device *device, const struct max_pool *shape, const void *gradient_,
                                        const uint8_t *places, const void *x, const struct batch_norm *before,
                                        void *gradient_x_)
{
    const REAL *gradient = gradient_;
    REAL *gradient_x = gradient_x_;
    const size_t rows = shape->batch * shape->height * shape->width;
    memset(gradient_x, 0, rows * shape->channels * sizeof *gradient_x);
    for (size_t i = 0; i < reference_pooled(shape); i++) {
        size_t at;
        if (reference_window(shape, i, places[i], &at))
            gradient_x[at] += gradient[i];
    }
    if (before)
        reference_slope(before, rows, x, gradient_x);
}

static void reference_average_pool_forward(struct device *device, const struct average_pool *shape, const void *x_,
                                           const struct batch_norm *before, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (size_t image = 0; image < shape->batch; image++)
        for (size_t j = 0; j < shape->channels; j++) {
            REAL sum = 0;
            for (size_t i = 0; i < shape->positions; i++)
                sum += reference_input(before, j, x[(image * shape->positions + i) * shape->channels + j]);
            out[image * shape->channels + j] = sum / (REAL)shape->positions;
        }
}

static void reference_average_pool_backward(struct device *device, const struct average_pool *shape,
                                            const void *gradient_, const void *x, const struct batch_norm *before,
                                            void *gradient_x_)
{
    const REAL *gradient = gradient_;
    REAL *gradient_x = gradient_x_;
    const size_t rows = shape->batch * shape->positions;
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < shape->channels; j++)
            gradient_x[row * shape->channels + j] =
                gradient[row / shape->positions * shape->channels + j] / (REAL)shape->positions;
    if (before)
        reference_slope(before, rows, x, gradient_x);
}

/* ---- pixels and loss ---- */

static void reference_pixels_to_activations(struct device *device, size_t count, const float *pixels, void *out)
{
    for (size_t i = 0; i < count; i++)
        ((REAL *)out)[i] = (REAL)pixels[i];
}

static void reference_mixed_cross_entropy(struct device *device, size_t rows, size_t classes, size_t stride,
                                          const int32_t *targets, const float *shares, double smoothing, double scale,
                                          void *logits_, double *losses, double *right)
{
    for (size_t i = 0; i < rows; i++) {
        REAL *logits = (REAL *)logits_ + i * stride;
        size_t largest = 0;
        for (size_t j = 1; j < classes; j++)
            largest = logits[j] > logits[largest] ? j : largest;
        double sum = 0, expected = 0;
        const double most = logits[largest];
        for (size_t j = 0; j < classes; j++)
            sum += exp(logits[j] - most);
        if (right)
            right[i] = largest == (size_t)targets[2 * i];
        for (size_t j = 0; j < classes; j++) {
            double share = smoothing / (double)classes;
            for (size_t k = 2 * i; k < 2 * i + 2; k++)
                share += j == (size_t)targets[k] ? (1 - smoothing) * (double)shares[k] : 0;
            expected += share > 0 ? share * logits[j] : 0;
            if (scale != 0)
                logits[j] = (REAL)(scale * (exp(logits[j] - most) / sum - share));
        }
        losses[i] = most + log(sum) - expected;
    }
}

static void reference_images_put(struct device *device)
{
    device->pixels_to_activations = reference_pixels_to_activations;
    device->convolution_forward = reference_convolution_forward;
    device->convolution_backward_input = reference_convolution_backward_input;
    device->convolution_backward_weights = reference_convolution_backward_weights;
    device->batch_norm_reciprocals = reference_batch_norm_reciprocals;
    device->batch_norm_join = reference_batch_norm_join;
    device->batch_norm_forward = reference_batch_norm_forward;
    device->batch_norm_backward = reference_batch_norm_backward;
    device->max_pool_forward = reference_max_pool_forward;
    device->max_pool_backward = reference_max_pool_backward;
    device->average_pool_forward = reference_average_pool_forward;
    device->average_pool_backward = reference_average_pool_backward;
    device->mixed_cross_entropy = reference_mixed_cross_entropy;
}
