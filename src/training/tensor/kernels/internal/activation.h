/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrays that layers pass to each other hold `activation`s: floats; bf16 if KERNELS_BF16 is defined (the upper half of
 * a float); or f16 if KERNELS_F16 is (IEEE 754 binary16). Both are rounded to nearest, ties to even. In registers they are
 * always floats.
 */
#ifndef WEFT_TRAINING_TENSOR_KERNELS_INTERNAL_ACTIVATION_H
#define WEFT_TRAINING_TENSOR_KERNELS_INTERNAL_ACTIVATION_H

#include "base/float_bits.h"
#include "training/tensor/kernels/internal/vector.h"

#if defined(KERNELS_BF16)

/* ---- bf16 ---- */

VECTOR_FUNCTION vector bf16_load_part(const uint16_t *from, size_t count, float other)
{
#if defined(__AVX512F__)
    if (__builtin_expect(count >= LANES, 1)) {
        __m512i all = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)from));
        return (vector)_mm512_castsi512_ps(_mm512_slli_epi32(all, 16));
    }
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    __m512i halves = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    return (vector)_mm512_mask_blend_ps(mask, _mm512_set1_ps(other),
                                        _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16)));
#else
#if defined(__AVX2__)
    if (__builtin_expect(count >= LANES, 1))
        return (vector)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)from)), 16);
#endif
    float lane[LANES];
    for (size_t i = 0; i < LANES; i++) {
        uint32_t bits = i < count ? (uint32_t)from[i] << 16 : 0;
        memcpy(&lane[i], &bits, sizeof bits);
        if (i >= count)
            lane[i] = other;
    }
    return vector_load(lane);
#endif
}

/* Rounded bits in the lower half of each lane; a NaN stays a NaN. */
VECTOR_FUNCTION vector_bits bf16_round(vector x)
{
    vector_bits bits = (vector_bits)x, odd = (bits >> 16) & 1;
    vector_bits rounded = ((bits + 0x7fff + odd) >> 16) & 0xffff;
#if defined(__AVX512F__)
    __mmask16 none = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    return (vector_bits)_mm512_mask_mov_epi32((__m512i)rounded, none, _mm512_set1_epi32(0x7fc0));
#else
    vector_bits is_number = x == x;
    return (rounded & is_number) | (0x7fc0 & ~is_number);
#endif
}

VECTOR_FUNCTION void bf16_store_part(uint16_t *to, vector x, size_t count)
{
    vector_bits rounded = bf16_round(x);
#if defined(__AVX512F__)
    const __m256i halves = _mm512_cvtepi32_epi16((__m512i)rounded);
    if (__builtin_expect(count >= LANES, 1))
        _mm256_storeu_si256((__m256i_u *)to, halves);
    else
        _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), halves);
#else
#if defined(__AVX2__)
    if (__builtin_expect(count >= LANES, 1)) {
        const __m256i lanes = (__m256i)rounded;
        _mm_storeu_si128((__m128i_u *)to,
                         _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)));
        return;
    }
#endif
    for (size_t i = 0; i < LANES && i < count; i++)
        to[i] = (uint16_t)rounded[i];
#endif
}

VECTOR_FUNCTION float bf16_value(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

typedef uint16_t activation;
#define ACTIVATION_TYPE       WEFT_BF16
#define activation_load_part  bf16_load_part
#define activation_store_part bf16_store_part
#define activation_value      bf16_value

#elif defined(KERNELS_F16)

/* ---- f16 ---- */

VECTOR_FUNCTION vector f16_load_part(const uint16_t *from, size_t count, float other)
{
#if defined(__AVX512F__)
    if (__builtin_expect(count >= LANES, 1))
        return (vector)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)from));
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    return (vector)_mm512_mask_cvtph_ps(_mm512_set1_ps(other), mask, _mm256_maskz_loadu_epi16(mask, from));
#else
#if defined(__F16C__)
    if (__builtin_expect(count >= LANES, 1))
        return (vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)from));
#endif
    float lane[LANES];
    for (size_t i = 0; i < LANES; i++)
        lane[i] = i < count ? float_from_f16(from[i]) : other;
    return vector_load(lane);
#endif
}

VECTOR_FUNCTION void f16_store_part(uint16_t *to, vector x, size_t count)
{
#if defined(__AVX512F__)
    const __m256i halves = _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    if (__builtin_expect(count >= LANES, 1))
        _mm256_storeu_si256((__m256i_u *)to, halves);
    else
        _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), halves);
#elif defined(__F16C__)
    const __m128i halves = _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    if (__builtin_expect(count >= LANES, 1))
        _mm_storeu_si128((__m128i_u *)to, halves);
    else
        memcpy(to, &halves, count * sizeof *to);
#else
    for (size_t i = 0; i < LANES && i < count; i++)
        to[i] = float_to_f16(x[i]);
#endif
}

typedef uint16_t activation;
#define ACTIVATION_TYPE       WEFT_F16
#define activation_load_part  f16_load_part
#define activation_store_part f16_store_part
#define activation_value      float_from_f16

#else

/* ---- floats ---- */

typedef float activation;
#define ACTIVATION_TYPE       WEFT_F32
#define activation_load_part  vector_load_part
#define activation_store_part vector_store_part
VECTOR_FUNCTION float activation_value(float value)
{
    return value;
}
#endif

/** All lanes to memory that is aligned to as many bytes, past the caches where activations are floats. */
VECTOR_FUNCTION void activation_stream(activation *to, vector x)
{
#if defined(KERNELS_BF16) || defined(KERNELS_F16)
    activation_store_part(to, x, LANES);
#else
    vector_stream(to, x);
#endif
}

/** All lanes, from memory that has them. */
VECTOR_FUNCTION vector activation_load(const activation *from)
{
    return activation_load_part(from, LANES, 0);
}

#endif
