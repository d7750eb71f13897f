/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A register of floats and its operations in the compiler's vector extensions (gcc and clang), for the instruction set
 * that this file is compiled for: 16 lanes with AVX-512, 8 with AVX2, 4 otherwise. Intrinsics are used only for
 * operations that the extensions lack: fused multiply-add, maximum, broadcast.
 *
 * Loads and stores need no alignment, and sums always use the same lanes in the same order, so that results do not
 * depend on an array's address.
 */
#ifndef WEFT_TRAINING_TENSOR_KERNELS_INTERNAL_VECTOR_H
#define WEFT_TRAINING_TENSOR_KERNELS_INTERNAL_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t vector_bits __attribute__((vector_size(LANES * sizeof(float))));

#define VECTOR_FUNCTION static inline __attribute__((always_inline, unused))

/** `value` in all lanes. */
VECTOR_FUNCTION vector vector_of(float value)
{
#if defined(__AVX512F__)
    return (vector)_mm512_set1_ps(value);
#elif defined(__AVX2__)
    return (vector)_mm256_set1_ps(value);
#else
    return (vector){value, value, value, value};
#endif
}

VECTOR_FUNCTION vector vector_load(const float *from)
{
    vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

VECTOR_FUNCTION void vector_store(float *to, vector x)
{
    memcpy(to, &x, sizeof x);
}

/** The first `count` lanes from memory, `other` in the rest; all of them where `count` is LANES or more. */
VECTOR_FUNCTION vector vector_load_part(const float *from, size_t count, float other)
{
    if (__builtin_expect(count >= LANES, 1))
        return vector_load(from);
#if defined(__AVX512F__)
    return (vector)_mm512_mask_loadu_ps(_mm512_set1_ps(other), (__mmask16)((1u << count) - 1), from);
#else
    vector x = vector_of(other);
    memcpy(&x, from, count * sizeof(float));
    return x;
#endif
}

/** The first `count` lanes to memory; all of them where `count` is LANES or more. */
VECTOR_FUNCTION void vector_store_part(float *to, vector x, size_t count)
{
    if (__builtin_expect(count >= LANES, 1)) {
        vector_store(to, x);
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)x);
#else
    memcpy(to, &x, count * sizeof(float));
#endif
}

/** All lanes to aligned memory, past the caches where the processor can: for arrays that are larger than these. */
VECTOR_FUNCTION void vector_stream(float *to, vector x)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(to, (__m512)x);
#elif defined(__AVX2__)
    _mm256_stream_ps(to, (__m256)x);
#else
    vector_store(to, x);
#endif
}

/** The first `count` lanes of x (all, where that is LANES or more), 0 in the rest, even for NaNs. */
VECTOR_FUNCTION vector vector_keep(vector x, size_t count)
{
    if (__builtin_expect(count >= LANES, 1))
        return x;
#if LANES == 16
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif LANES == 8
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7};
#else
    const vector_bits lane = {0, 1, 2, 3};
#endif
    return (vector)((vector_bits)x & (lane < (int32_t)count));
}

/** a b + c, rounded once where the processor can. */
VECTOR_FUNCTION vector vector_multiply_add(vector a, vector b, vector c)
{
#if defined(__AVX512F__)
    return (vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/** The larger; b where either is NaN, so that a NaN in b is not lost. */
VECTOR_FUNCTION vector vector_max(vector a, vector b)
{
#if defined(__AVX512F__)
    return (vector)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vector)_mm256_max_ps((__m256)a, (__m256)b);
#else
    vector_bits larger = a > b;
    return (vector)(((vector_bits)a & larger) | ((vector_bits)b & ~larger));
#endif
}

/** The smaller; b where either is NaN. */
VECTOR_FUNCTION vector vector_min(vector a, vector b)
{
#if defined(__AVX512F__)
    return (vector)_mm512_min_ps((__m512)a, (__m512)b);
#else
    return -vector_max(-a, -b);
#endif
}

/** Sum of the lanes, by halves. */
VECTOR_FUNCTION float vector_sum(vector x)
{
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#else
    float lane[LANES];
    vector_store(lane, x);
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
#endif
}

/** The largest lane. */
VECTOR_FUNCTION float vector_largest(vector x)
{
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)x);
#else
    float lane[LANES];
    vector_store(lane, x);
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
#endif
}

/**
 * e^x within 2 units in the last place for x in [-87, 88]; outside it the value at the nearer end. A NaN stays a NaN.
 *
 * x = n ln 2 + r with n whole and |r| <= ln 2 / 2 (Cody and Waite 1980: ln 2 in two parts); e^r by its Taylor
 * polynomial of degree 7 in Horner's form (error below 2^-27 there); 2^n by writing n into an exponent.
 */
VECTOR_FUNCTION vector vector_exponential(vector x)
{
    const vector round =
        vector_of(12582912.0f); /* 1.5 x 2^23: adding it leaves the nearest whole number in the low bits */
    x = vector_max(vector_of(-87.0f), vector_min(vector_of(88.0f), x));
    vector shifted = vector_multiply_add(x, vector_of(1.44269504f), round);
    vector n = shifted - round;
    vector r = vector_multiply_add(n, vector_of(-0.693359375f), x);
    r = vector_multiply_add(n, vector_of(2.12194440e-4f), r);
    vector p = vector_of(1.0f / 5040);
    p = vector_multiply_add(p, r, vector_of(1.0f / 720));
    p = vector_multiply_add(p, r, vector_of(1.0f / 120));
    p = vector_multiply_add(p, r, vector_of(1.0f / 24));
    p = vector_multiply_add(p, r, vector_of(1.0f / 6));
    p = vector_multiply_add(p, r, vector_of(0.5f));
    p = vector_multiply_add(p, r, vector_of(1.0f));
    p = vector_multiply_add(p, r, vector_of(1.0f));
#if defined(__AVX512F__)
    return (vector)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vector_bits exponent = ((vector_bits)shifted - (vector_bits)round + 127) << 23;
    return p * (vector)exponent;
#endif
}

#endif
