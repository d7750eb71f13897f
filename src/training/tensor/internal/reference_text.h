/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference kernels that models of whole texts (BERT) have besides those of reference.h, which includes this: GELU by
 * the error function, tanh, and rows chosen by position.
 */

#define ROOT_HALF       0.70710678118654752440 /* sqrt(1 / 2) */
#define NORMAL_DENSITY0 0.39894228040143267794 /* 1 / sqrt(2 pi) */

static double normal_distribution(double x)
{
    return 0.5 * erfc(-x * ROOT_HALF);
}

static void reference_gelu_erf_forward(struct device *device, size_t count, const void *x_, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (size_t i = 0; i < count; i++)
        out[i] = (REAL)((double)x[i] * normal_distribution((double)x[i]));
}

/* gelu'(x) = Phi(x) + x Phi'(x). */
static void reference_gelu_erf_backward(struct device *device, size_t rows, size_t width, const void *x_,
                                        void *gradient_, void *gradient_bias)
{
    const REAL *x = x_;
    REAL *gradient = gradient_;
    for (size_t i = 0; i < rows * width; i++) {
        const double at = (double)x[i], density = NORMAL_DENSITY0 * exp(-0.5 * at * at);
        gradient[i] *= (REAL)(normal_distribution(at) + at * density);
    }
    if (gradient_bias)
        reference_column_sums(device, rows, width, gradient, gradient_bias);
}

static void reference_tanh_forward(struct device *device, size_t count, void *x_)
{
    REAL *x = x_;
    for (size_t i = 0; i < count; i++)
        x[i] = (REAL)tanh((double)x[i]);
}

static void reference_tanh_backward(struct device *device, size_t count, const void *out_, void *gradient_)
{
    const REAL *out = out_;
    REAL *gradient = gradient_;
    for (size_t i = 0; i < count; i++)
        gradient[i] *= 1 - out[i] * out[i];
}

static size_t chosen_row(const struct row_choice *choice, size_t sample, size_t i)
{
    const size_t position = choice->positions ? (size_t)choice->positions[sample * choice->count + i] : i;
    return sample * choice->sequence + position;
}

static void reference_gather_rows(struct device *device, const struct row_choice *choice, const void *x_, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (size_t sample = 0; sample < choice->batch; sample++)
        for (size_t i = 0; i < choice->count; i++)
            for (size_t j = 0; j < choice->width; j++)
                out[(sample * choice->count + i) * choice->width + j] =
                    x[chosen_row(choice, sample, i) * choice->width + j];
}

static void reference_scatter_rows(struct device *device, const struct row_choice *choice, const void *gradient_,
                                   void *x_)
{
    const REAL *gradient = gradient_;
    REAL *x = x_;
    for (size_t sample = 0; sample < choice->batch; sample++)
        for (size_t i = 0; i < choice->count; i++)
            for (size_t j = 0; j < choice->width; j++)
                x[chosen_row(choice, sample, i) * choice->width + j] +=
                    gradient[(sample * choice->count + i) * choice->width + j];
}
