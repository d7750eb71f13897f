/* SPDX-License-Identifier: Apache-2.0 */
/** The bits of floating-point numbers, in IEEE 754 formats, and back. Those of every NaN are preserved, except by
 * float_to_f16(). */
#ifndef WEFT_BASE_FLOAT_BITS_H
#define WEFT_BASE_FLOAT_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t double_to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double double_from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- f16: IEEE 754 binary16, a sign, 5 bits of exponent, 10 of fraction. Written so that compilers vectorize it. ---- */

/** Exact. Exponents are moved by a multiplication, which takes denormals along. */
static inline float float_from_f16(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffu;
    uint32_t bits = float_to_bits(float_from_bits(magnitude << 13) * 0x1p112f);
    bits |= magnitude >= 0x7c00u ? 0x7f800000u : 0;
    return float_from_bits(bits | (uint32_t)(half & 0x8000u) << 16);
}

/** To nearest, ties to even; 65520 and above become infinite; every NaN becomes 0x7e00. Adding 0.5 to a value below 2^-14
 * leaves it rounded to multiples of 2^-24, f16's denormals, in the lowest bits. */
static inline uint16_t float_to_f16(float value)
{
    uint32_t bits = float_to_bits(value), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t small = float_to_bits(float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? small : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    return magnitude > 0x7f800000u ? 0x7e00 : (uint16_t)(half | sign);
}

/** How many of `count` floats are infinite or NaN. */
static inline size_t float_count_not_finite(const float *values, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += (float_to_bits(values[i]) & 0x7f800000) == 0x7f800000;
    return found;
}

#endif
