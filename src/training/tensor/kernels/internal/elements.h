/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that compute every element alone: no element's bits depend on where a range begins or ends. */

#define GELU_ROOT 0.79788456080286535588f /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

/* Twelve independent sums, more than two units with a latency of four cycles need. */
static double multiply_adds(size_t rounds)
{
    enum { SUMS = 12 };
    vector sum[SUMS], total = {0};
    for (size_t k = 0; k < SUMS; k++) /* all different, or they would be computed once */
        sum[k] = vector_of((float)k);
#if defined(KERNELS_BF16) && defined(__AVX512BF16__)
    const size_t each = 2; /* products that one instruction adds to a lane */
    const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f80), b = (__m512bh)_mm512_set1_epi16(0x3c00);
    for (size_t i = 0; i < rounds; i++)
#pragma GCC unroll 12
        for (size_t k = 0; k < SUMS; k++)
            sum[k] = (vector)_mm512_dpbf16_ps((__m512)sum[k], a, b);
#else
    const size_t each = 1;
    const vector a = vector_of(1.0f - 0x1p-20f), b = vector_of(0x1p-20f);
    for (size_t i = 0; i < rounds; i++)
#pragma GCC unroll 12
        for (size_t k = 0; k < SUMS; k++)
            sum[k] = vector_multiply_add(sum[k], a, b);
#endif
    for (size_t k = 0; k < SUMS; k++)
        total += sum[k];
    volatile float kept = vector_sum(total); /* or nothing need be computed */
    (void)kept;
    return 2.0 * SUMS * LANES * (double)(each * rounds);
}

static void fill(size_t count, float value, float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = value;
}

static void add(size_t count, const float *a, const float *b, float *out)
{
    for (size_t i = 0; i < count; i += LANES) {
        vector sum = vector_load_part(a + i, count - i, 0) + vector_load_part(b + i, count - i, 0);
        vector_store_part(out + i, sum, count - i);
    }
}

/* y = x + branch: the residual stream stays in floats. */
static void add_branch(size_t count, const float *x, const void *branch_, float *y)
{
    const activation *branch = branch_;
    for (size_t i = 0; i < count; i += LANES) {
        vector sum = vector_load_part(x + i, count - i, 0) + activation_load_part(branch + i, count - i, 0);
        vector_store_part(y + i, sum, count - i);
    }
}

static void to_activations(size_t count, const float *x, void *out_)
{
    activation *out = out_;
    for (size_t i = 0; i < count; i += LANES)
        activation_store_part(out + i, vector_load_part(x + i, count - i, 0), count - i);
}

static void from_activations(size_t count, const void *x_, float *out)
{
    const activation *x = x_;
    for (size_t i = 0; i < count; i += LANES)
        vector_store_part(out + i, activation_load_part(x + i, count - i, 0), count - i);
}

static void scale(size_t count, float factor, float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

/*
 * gelu(x) = x (1 + tanh u) / 2 = x / (1 + e^(-2u)) with u = sqrt(2/pi) (x + 0.044715 x^3): one exponential, one
 * division.
 */
VECTOR_FUNCTION vector gelu_sigmoid(vector x)
{
    vector square = x * x;
    vector u2 = x * vector_multiply_add(square, vector_of(-2 * GELU_ROOT * GELU_CUBE), vector_of(-2 * GELU_ROOT));
    return vector_of(1.0f) / (vector_of(1.0f) + vector_exponential(u2));
}

static void gelu_forward(size_t count, const void *x_, void *out_)
{
    const activation *x = x_;
    activation *out = out_;
    for (size_t i = 0; i < count; i += LANES) {
        vector v = activation_load_part(x + i, count - i, 0);
        activation_store_part(out + i, v * gelu_sigmoid(v), count - i);
    }
}

/* gelu'(x) = s + x s (1 - s) 2u' with s = 1 / (1 + e^(-2u)). */
VECTOR_FUNCTION vector gelu_slope(vector x)
{
    vector s = gelu_sigmoid(x);
    vector slope = vector_multiply_add(x * x, vector_of(2 * GELU_ROOT * 3 * GELU_CUBE), vector_of(2 * GELU_ROOT));
    return vector_multiply_add(x * slope * s, vector_of(1.0f) - s, s);
}

/*
 * Phi(x), the normal distribution, and e^(-x^2 / 2), which is a factor of its tail: Phi(-|x|) = e^(-x^2 / 2) p(t) / 2 with
 * t = 1 / (1 + 0.3275911 |x| / sqrt(2)) and p of degree 5 (Abramowitz and Stegun 1964, formula 7.1.26: the error of erf
 * is below 1.5e-7).
 */
VECTOR_FUNCTION vector normal_share(vector x, vector *bell)
{
    const vector size = (vector)((vector_bits)x & 0x7fffffff);
    const vector t = vector_of(1.0f) / vector_multiply_add(size, vector_of(0.3275911f * 0.70710678f), vector_of(1.0f));
    vector p = vector_of(0.5f * 1.061405429f);
    p = vector_multiply_add(p, t, vector_of(0.5f * -1.453152027f));
    p = vector_multiply_add(p, t, vector_of(0.5f * 1.421413741f));
    p = vector_multiply_add(p, t, vector_of(0.5f * -0.284496736f));
    p = vector_multiply_add(p, t, vector_of(0.5f * 0.254829592f));
    *bell = vector_exponential(x * x * vector_of(-0.5f));
    const vector tail = p * t * *bell, rest = vector_of(1.0f) - tail;
    const vector_bits negative = x < 0;
    return (vector)(((vector_bits)tail & negative) | ((vector_bits)rest & ~negative));
}

static void gelu_erf_forward(size_t count, const void *x_, void *out_)
{
    const activation *x = x_;
    activation *out = out_;
    for (size_t i = 0; i < count; i += LANES) {
        vector bell, v = activation_load_part(x + i, count - i, 0);
        activation_store_part(out + i, v * normal_share(v, &bell), count - i);
    }
}

/* gelu'(x) = Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi). */
VECTOR_FUNCTION vector gelu_erf_slope(vector x)
{
    vector bell, share = normal_share(x, &bell);
    return vector_multiply_add(x * vector_of(0.39894228f), bell, share);
}

/* tanh x = 1 - 2 / (1 + e^(2x)), to 1e-7 absolutely. */
static void tanh_forward(size_t count, void *x_)
{
    activation *x = x_;
    for (size_t i = 0; i < count; i += LANES) {
        vector v = activation_load_part(x + i, count - i, 0);
        v = vector_of(1.0f) - vector_of(2.0f) / (vector_of(1.0f) + vector_exponential(v + v));
        activation_store_part(x + i, v, count - i);
    }
}

static void tanh_backward(size_t count, const void *out_, void *gradient_)
{
    const activation *out = out_;
    activation *gradient = gradient_;
    for (size_t i = 0; i < count; i += LANES) {
        vector t = activation_load_part(out + i, count - i, 0), g = activation_load_part(gradient + i, count - i, 0);
        activation_store_part(gradient + i, g * (vector_of(1.0f) - t * t), count - i);
    }
}

/* ---- SwiGLU ---- */

VECTOR_FUNCTION vector sigmoid(vector x)
{
    return vector_of(1.0f) / (vector_of(1.0f) + vector_exponential(-x));
}

static void swiglu_forward(size_t rows, size_t width, const void *gate_up_, void *out_)
{
    const activation *gate_up = gate_up_;
    activation *out = out_;
    for (size_t i = 0; i < rows; i++) {
        const activation *gate = gate_up + i * 2 * width, *up = gate + width;
        for (size_t j = 0; j < width; j += LANES) {
            vector g = activation_load_part(gate + j, width - j, 0), u = activation_load_part(up + j, width - j, 0);
            activation_store_part(out + i * width + j, g * sigmoid(g) * u, width - j);
        }
    }
}

/* silu'(g) = s + g s (1 - s) with s = 1 / (1 + e^-g). */
static void swiglu_backward(size_t rows, size_t width, const void *gate_up_, const void *gradient_out_,
                            void *gradient_gate_up_)
{
    const activation *gate_up = gate_up_;
    const activation *gradient_out = gradient_out_;
    activation *gradient_gate_up = gradient_gate_up_;
    for (size_t i = 0; i < rows; i++) {
        const activation *gate = gate_up + i * 2 * width, *up = gate + width;
        activation *to_gate = gradient_gate_up + i * 2 * width, *to_up = to_gate + width;
        for (size_t j = 0; j < width; j += LANES) {
            size_t rest = width - j;
            vector g = activation_load_part(gate + j, rest, 0), u = activation_load_part(up + j, rest, 0),
                   s = sigmoid(g);
            vector d = activation_load_part(gradient_out + i * width + j, rest, 0);
            activation_store_part(to_gate + j, d * u * vector_multiply_add(g * s, vector_of(1.0f) - s, s), rest);
            activation_store_part(to_up + j, d * g * s, rest);
        }
    }
}

/* ---- rotary positions ---- */

static void rotary(size_t heads, size_t head_width, const float *turns, bool back, void *row_)
{
    activation *row = row_;
    const size_t half = head_width / 2;
    const vector direction = vector_of(back ? -1.0f : 1.0f);
    for (size_t head = 0; head < heads; head++, row += head_width)
        for (size_t i = 0; i < half; i += LANES) {
            size_t rest = half - i;
            vector a = activation_load_part(row + i, rest, 0), b = activation_load_part(row + half + i, rest, 0);
            vector cosine = vector_load_part(turns + i, rest, 0);
            vector sine = direction * vector_load_part(turns + half + i, rest, 0);
            activation_store_part(row + i, vector_multiply_add(a, cosine, -b * sine), rest);
            activation_store_part(row + half + i, vector_multiply_add(b, cosine, a * sine), rest);
        }
}

/* ---- optimizer ---- */

/* Plain arithmetic and a correctly rounded root and division, so that the compiler may vectorize as it likes. */
static void adamw(const struct adamw *step, size_t count, float *restrict parameters, const float *restrict gradients,
                  float *restrict first_moments, float *restrict second_moments)
{
    const float gradient_scale = (float)step->gradient_scale, epsilon = (float)step->epsilon;
    const float beta1 = (float)step->beta1, rest1 = (float)(1 - step->beta1);
    const float beta2 = (float)step->beta2, rest2 = (float)(1 - step->beta2);
    const float correction1 = (float)(step->rate * step->correction1), correction2 = (float)step->correction2;
    const float keep = (float)(1 - step->rate * step->weight_decay);
    for (size_t i = 0; i < count; i++) {
        float g = gradients[i] * gradient_scale;
        float m = beta1 * first_moments[i] + rest1 * g;
        float v = beta2 * second_moments[i] + rest2 * (g * g);
        first_moments[i] = m;
        second_moments[i] = v;
        parameters[i] = keep * parameters[i] - correction1 * m / (sqrtf(v * correction2) + epsilon);
    }
}

static void adamw_direction(const struct adamw *step, size_t count, const float *restrict parameters,
                            float *restrict gradients, float *restrict first_moments, float *restrict second_moments)
{
    const float gradient_scale = (float)step->gradient_scale, epsilon = (float)step->epsilon;
    const float beta1 = (float)step->beta1, rest1 = (float)(1 - step->beta1);
    const float beta2 = (float)step->beta2, rest2 = (float)(1 - step->beta2);
    const float correction1 = (float)step->correction1, correction2 = (float)step->correction2;
    const float decay = (float)step->weight_decay;
    for (size_t i = 0; i < count; i++) {
        float g = gradients[i] * gradient_scale;
        float m = beta1 * first_moments[i] + rest1 * g;
        float v = beta2 * second_moments[i] + rest2 * (g * g);
        first_moments[i] = m;
        second_moments[i] = v;
        gradients[i] = correction1 * m / (sqrtf(v * correction2) + epsilon) + decay * parameters[i];
    }
}

static void sgd(const struct sgd *step, size_t count, float *restrict parameters, const float *restrict gradients,
                float *restrict moments)
{
    const float gradient_scale = (float)step->gradient_scale, decay = (float)step->weight_decay;
    const float momentum = (float)step->momentum, rate = (float)step->rate;
    for (size_t i = 0; i < count; i++) {
        float m = momentum * moments[i] + (gradients[i] * gradient_scale + decay * parameters[i]);
        moments[i] = m;
        parameters[i] -= rate * m;
    }
}

static void combine(size_t count, float a, const float *x, float b, const float *y, float *out)
{
    const vector of_x = vector_of(a), of_y = vector_of(b);
    for (size_t i = 0; i < count; i += LANES) {
        vector sum = of_x * vector_load_part(x + i, count - i, 0) + of_y * vector_load_part(y + i, count - i, 0);
        vector_store_part(out + i, sum, count - i);
    }
}
