/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that sum along rows or columns: norms, softmax with cross entropy, sums for bias gradients and norms. */

/* In double, 8 lanes whatever the instruction set: the norm of the gradient is the same on every machine. */
static double sum_of_squares(size_t count, const float *x)
{
    double lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t k = 0; i + k < count; k++)
        lane[k] += (double)x[i + k] * (double)x[i + k];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Panels of four registers go down all rows, so that sums stay in registers. */
static void column_sums(size_t rows, size_t width, size_t first, size_t last, const void *x_, float *out)
{
    const activation *x = x_;
    size_t j = first;
    for (; j + 4 * LANES <= last; j += 4 * LANES) {
        vector sum[4] = {{0}};
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < 4; k++)
                sum[k] += activation_load(x + i * width + j + k * LANES);
        for (size_t k = 0; k < 4; k++)
            vector_store(out + j + k * LANES, sum[k]);
    }
    for (; j < last; j++) {
        float sum = 0;
        for (size_t i = 0; i < rows; i++)
            sum += activation_value(x[i * width + j]);
        out[j] = sum;
    }
}

/* ---- layer norm ---- */

/* Sum of a row; four registers of partial sums hide the latency of addition. */
static float row_sum(const float *x, size_t width)
{
    vector sum[4] = {{0}};
    size_t j = 0;
    for (; j + 4 * LANES <= width; j += 4 * LANES)
        for (size_t k = 0; k < 4; k++)
            sum[k] += vector_load(x + j + k * LANES);
    for (; j < width; j += LANES)
        sum[0] += vector_load_part(x + j, width - j, 0);
    return vector_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* Sum of (x - from)^2. */
static float row_scatter(const float *x, float from, size_t width)
{
    const vector center = vector_of(from);
    vector sum[4] = {{0}};
    size_t j = 0;
    for (; j + 4 * LANES <= width; j += 4 * LANES)
        for (size_t k = 0; k < 4; k++) {
            vector distance = vector_load(x + j + k * LANES) - center;
            sum[k] = vector_multiply_add(distance, distance, sum[k]);
        }
    for (; j < width; j += LANES) {
        vector distance = vector_load_part(x + j, width - j, from) - center;
        sum[0] = vector_multiply_add(distance, distance, sum[0]);
    }
    return vector_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static float row_dot(const activation *a, const activation *b, size_t width)
{
    vector sum = {0};
    for (size_t j = 0; j < width; j += LANES)
        sum = vector_multiply_add(activation_load_part(a + j, width - j, 0), activation_load_part(b + j, width - j, 0),
                                  sum);
    return vector_sum(sum);
}

/* Parts of rows of activations, or of floats if `wide`, a constant where these are called. */
VECTOR_FUNCTION vector norm_load(const void *array, size_t at, size_t rest, bool wide)
{
    return wide ? vector_load_part((const float *)array + at, rest, 0)
                : activation_load_part((const activation *)array + at, rest, 0);
}

VECTOR_FUNCTION void norm_store(void *array, size_t at, vector x, size_t rest, bool wide)
{
    if (wide)
        vector_store_part((float *)array + at, x, rest);
    else
        activation_store_part((activation *)array + at, x, rest);
}

VECTOR_FUNCTION void norm_rows_forward(size_t rows, size_t width, float epsilon, const float *x, const float *gain,
                                       const float *bias, void *out, bool wide, float *means, float *reciprocals)
{
    for (size_t i = 0; i < rows; i++) {
        const float *row = x + i * width;
        means[i] = row_sum(row, width) / (float)width;
        reciprocals[i] = 1.0f / sqrtf(row_scatter(row, means[i], width) / (float)width + epsilon);
        const vector mean = vector_of(means[i]), reciprocal = vector_of(reciprocals[i]);
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            vector n = (vector_load_part(row + j, rest, 0) - mean) * reciprocal;
            n = vector_multiply_add(n, vector_load_part(gain + j, rest, 0), vector_load_part(bias + j, rest, 0));
            norm_store(out, i * width + j, n, rest, wide);
        }
    }
}

static void layer_norm_forward(size_t rows, size_t width, float epsilon, const float *x, const float *gain,
                               const float *bias, void *out, float *means, float *reciprocals)
{
    norm_rows_forward(rows, width, epsilon, x, gain, bias, out, false, means, reciprocals);
}

static void stream_norm_forward(size_t rows, size_t width, float epsilon, const float *x, const float *gain,
                                const float *bias, float *out, float *means, float *reciprocals)
{
    norm_rows_forward(rows, width, epsilon, x, gain, bias, out, true, means, reciprocals);
}

/* training/tensor/internal/reference.h has the formula. */
VECTOR_FUNCTION void norm_rows_backward(size_t rows, size_t width, const void *gradient_out, bool wide, const float *x,
                                        const float *gain, const float *means, const float *reciprocals,
                                        bool accumulate, float *gradient_x, float *gradient_gain, float *gradient_bias)
{
    fill(width, 0, gradient_gain);
    fill(width, 0, gradient_bias);
    for (size_t i = 0; i < rows; i++) {
        const size_t at = i * width;
        const float *row = x + i * width;
        float *result = gradient_x + i * width;
        const vector mean = vector_of(means[i]), reciprocal = vector_of(reciprocals[i]);
        vector sum_g = {0}, sum_gn = {0};
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            vector n = (vector_load_part(row + j, rest, means[i]) - mean) * reciprocal;
            vector d = norm_load(gradient_out, at + j, rest, wide), g = d * vector_load_part(gain + j, rest, 0);
            vector to_gain = vector_load_part(gradient_gain + j, rest, 0);
            vector_store_part(gradient_gain + j, vector_multiply_add(d, n, to_gain), rest);
            vector_store_part(gradient_bias + j, vector_load_part(gradient_bias + j, rest, 0) + d, rest);
            sum_g += g;
            sum_gn = vector_multiply_add(g, n, sum_gn);
        }
        const vector mean_g = vector_of(vector_sum(sum_g) / (float)width);
        const vector mean_gn = vector_of(vector_sum(sum_gn) / (float)width);
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            vector n = (vector_load_part(row + j, rest, 0) - mean) * reciprocal;
            vector g = norm_load(gradient_out, at + j, rest, wide) * vector_load_part(gain + j, rest, 0);
            vector slope = reciprocal * (g - mean_g - n * mean_gn);
            if (accumulate)
                slope += vector_load_part(result + j, rest, 0);
            vector_store_part(result + j, slope, rest);
        }
    }
}

static void layer_norm_backward(size_t rows, size_t width, const void *gradient_out, const float *x, const float *gain,
                                const float *means, const float *reciprocals, bool accumulate, float *gradient_x,
                                float *gradient_gain, float *gradient_bias)
{
    norm_rows_backward(rows, width, gradient_out, false, x, gain, means, reciprocals, accumulate, gradient_x,
                       gradient_gain, gradient_bias);
}

static void stream_norm_backward(size_t rows, size_t width, const float *gradient_out, const float *x,
                                 const float *gain, const float *means, const float *reciprocals, bool accumulate,
                                 float *gradient_x, float *gradient_gain, float *gradient_bias)
{
    norm_rows_backward(rows, width, gradient_out, true, x, gain, means, reciprocals, accumulate, gradient_x,
                       gradient_gain, gradient_bias);
}

static void rms_norm_forward(size_t rows, size_t width, float epsilon, const float *x, const float *gain, void *out_,
                             float *reciprocals)
{
    activation *out = out_;
    for (size_t i = 0; i < rows; i++) {
        const float *row = x + i * width;
        activation *result = out + i * width;
        reciprocals[i] = 1.0f / sqrtf(row_scatter(row, 0, width) / (float)width + epsilon);
        const vector reciprocal = vector_of(reciprocals[i]);
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            vector n = vector_load_part(row + j, rest, 0) * reciprocal;
            activation_store_part(result + j, n * vector_load_part(gain + j, rest, 0), rest);
        }
    }
}

/* As for layer norm, but there is no mean that depends on x. */
static void rms_norm_backward(size_t rows, size_t width, const void *gradient_out_, const float *x, const float *gain,
                              const float *reciprocals, bool accumulate, float *gradient_x, float *gradient_gain)
{
    const activation *gradient_out = gradient_out_;
    fill(width, 0, gradient_gain);
    for (size_t i = 0; i < rows; i++) {
        const activation *gradient = gradient_out + i * width;
        const float *row = x + i * width;
        float *result = gradient_x + i * width;
        const vector reciprocal = vector_of(reciprocals[i]);
        vector sum_gn = {0};
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            vector n = vector_load_part(row + j, rest, 0) * reciprocal;
            vector d = activation_load_part(gradient + j, rest, 0), g = d * vector_load_part(gain + j, rest, 0);
            vector to_gain = vector_load_part(gradient_gain + j, rest, 0);
            vector_store_part(gradient_gain + j, vector_multiply_add(d, n, to_gain), rest);
            sum_gn = vector_multiply_add(g, n, sum_gn);
        }
        const vector mean_gn = vector_of(vector_sum(sum_gn) / (float)width);
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            vector n = vector_load_part(row + j, rest, 0) * reciprocal;
            vector g = activation_load_part(gradient + j, rest, 0) * vector_load_part(gain + j, rest, 0);
            vector slope = reciprocal * (g - n * mean_gn);
            if (accumulate)
                slope += vector_load_part(result + j, rest, 0);
            vector_store_part(result + j, slope, rest);
        }
    }
}

static void gelu_backward(size_t rows, size_t width, const void *x_, void *gradient_, float *gradient_bias)
{
    const activation *x = x_;
    activation *gradient = gradient_;
    fill(width, 0, gradient_bias);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            activation *place = gradient + i * width + j;
            vector slope =
                activation_load_part(place, rest, 0) * gelu_slope(activation_load_part(x + i * width + j, rest, 0));
            activation_store_part(place, slope, rest);
            vector_store_part(gradient_bias + j, vector_load_part(gradient_bias + j, rest, 0) + slope, rest);
        }
}

static void gelu_erf_backward(size_t rows, size_t width, const void *x_, void *gradient_, float *gradient_bias)
{
    const activation *x = x_;
    activation *gradient = gradient_;
    fill(width, 0, gradient_bias);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            activation *place = gradient + i * width + j;
            vector slope =
                activation_load_part(place, rest, 0) * gelu_erf_slope(activation_load_part(x + i * width + j, rest, 0));
            activation_store_part(place, slope, rest);
            vector_store_part(gradient_bias + j, vector_load_part(gradient_bias + j, rest, 0) + slope, rest);
        }
}

/* ---- softmax ---- */

static float row_largest(const float *x, size_t width)
{
    vector most[4] = {vector_of(-INFINITY), vector_of(-INFINITY), vector_of(-INFINITY), vector_of(-INFINITY)};
    size_t j = 0;
    for (; j + 4 * LANES <= width; j += 4 * LANES)
        for (size_t k = 0; k < 4; k++)
            most[k] = vector_max(most[k], vector_load(x + j + k * LANES));
    for (; j < width; j += LANES)
        most[0] = vector_max(most[0], vector_load_part(x + j, width - j, -INFINITY));
    return vector_largest(vector_max(vector_max(most[0], most[1]), vector_max(most[2], most[3])));
}

/* The largest element, the sum of all, and the sum of e^(x - largest), of a row of logits. */
static float logits_largest(const activation *x, size_t width)
{
    vector most[4] = {vector_of(-INFINITY), vector_of(-INFINITY), vector_of(-INFINITY), vector_of(-INFINITY)};
    size_t j = 0;
    for (; j + 4 * LANES <= width; j += 4 * LANES)
        for (size_t k = 0; k < 4; k++)
            most[k] = vector_max(most[k], activation_load(x + j + k * LANES));
    for (; j < width; j += LANES)
        most[0] = vector_max(most[0], activation_load_part(x + j, width - j, -INFINITY));
    return vector_largest(vector_max(vector_max(most[0], most[1]), vector_max(most[2], most[3])));
}

static float logits_sum(const activation *x, size_t width)
{
    vector sum = {0};
    for (size_t j = 0; j < width; j += LANES)
        sum += activation_load_part(x + j, width - j, 0);
    return vector_sum(sum);
}

static float logits_exponentials(const activation *x, float most, size_t width)
{
    const vector most_lanes = vector_of(most);
    vector sum = {0};
    for (size_t j = 0; j < width; j += LANES)
        sum += vector_keep(vector_exponential(activation_load_part(x + j, width - j, 0) - most_lanes), width - j);
    return vector_sum(sum);
}

/* x = factor e^(x - most) - less */
static void logits_to_gradient(activation *x, float most, float factor, float less, size_t width)
{
    const vector most_lanes = vector_of(most), factors = vector_of(factor), lower = vector_of(-less);
    for (size_t j = 0; j < width; j += LANES) {
        vector term = vector_exponential(activation_load_part(x + j, width - j, 0) - most_lanes);
        activation_store_part(x + j, vector_multiply_add(term, factors, lower), width - j);
    }
}

/* Replace logits of a row with their gradients. `most` and `sum` are over `all` classes; `target` is NULL if it is not
 * among these. */
static void row_to_gradient(activation *row, activation *target, float most, float sum, size_t classes, size_t all,
                            float smoothing, float scale)
{
    const float factor = scale / sum, less = scale * smoothing / (float)all;
    const float at_target = target ? activation_value(*target) : 0;
    logits_to_gradient(row, most, factor, less, classes);
    if (!target)
        return;
    /* Recomputed, because the difference would be lost in the rounded value. */
    vector term = vector_exponential(vector_of(at_target - most));
    term = vector_multiply_add(term, vector_of(factor), vector_of(-less - scale * (1 - smoothing)));
    activation_store_part(target, term, 1);
}

static void row_clear(activation *row, size_t width)
{
    for (size_t j = 0; j < width; j += LANES)
        activation_store_part(row + j, (vector){0}, width - j);
}

static void cross_entropy(size_t rows, size_t classes, size_t stride, const int32_t *targets, float smoothing,
                          float gradient_scale, void *logits_, double *losses)
{
    activation *logits = logits_;
    for (size_t i = 0; i < rows; i++) {
        activation *row = logits + i * stride;
        if (targets[i] == DEVICE_NO_TARGET) {
            losses[i] = 0;
            row_clear(row, gradient_scale == 0 ? 0 : classes);
            continue;
        }
        activation *target = row + targets[i];
        const float most = logits_largest(row, classes), at_target = activation_value(*target);
        const float sum = logits_exponentials(row, most, classes);
        double expected = (double)at_target;
        if (smoothing > 0)
            expected += (double)smoothing * ((double)logits_sum(row, classes) / (double)classes - expected);
        losses[i] = log((double)sum) + (double)most - expected;
        if (gradient_scale == 0)
            continue;
        row_to_gradient(row, target, most, sum, classes, classes, smoothing, gradient_scale);
    }
}

/* ---- over some of the classes ---- */

/* Whether the prediction of a row is its target: the first of the largest logits, `most`. */
static bool is_first_largest(const activation *row, size_t classes, size_t target, float most)
{
    if (target >= classes || activation_value(row[target]) != most)
        return false;
    for (size_t j = 0; j < target; j++)
        if (activation_value(row[j]) == most)
            return false;
    return true;
}

static struct class_sums class_sums(const struct divided_classes *shape, size_t row, const void *logits)
{
    const activation *x = logits;
    if (shape->targets[row] == DEVICE_NO_TARGET)
        return class_sums_empty();
    const float most = logits_largest(x, shape->classes);
    return (struct class_sums){
        .largest = (double)most,
        .exponentials = (double)logits_exponentials(x, most, shape->classes),
        .sum = shape->smoothing > 0 ? (double)logits_sum(x, shape->classes) : 0,
        .at_target = classes_have_target(shape, row) ? (double)activation_value(x[shape->targets[row]]) : 0,
        .right =
            classes_have_target(shape, row) && is_first_largest(x, shape->classes, (size_t)shape->targets[row], most),
    };
}

static void class_gradient(const struct divided_classes *shape, size_t row, const struct class_sums *all, void *logits)
{
    activation *x = logits, *target = classes_have_target(shape, row) ? x + shape->targets[row] : NULL;
    if (shape->targets[row] == DEVICE_NO_TARGET) {
        row_clear(x, shape->classes);
        return;
    }
    row_to_gradient(x, target, (float)all->largest, (float)all->exponentials, shape->classes, shape->all,
                    (float)shape->smoothing, (float)shape->scale);
}
