/* SPDX-License-Identifier: Apache-2.0 */
/** The bits of floating-point numbers, in IEEE 754 formats, and back. The bits of every NaN are preserved. */
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

/** How many of `count` floats are infinite or NaN. */
static inline size_t float_count_not_finite(const float *values, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += (float_to_bits(values[i]) & 0x7f800000) == 0x7f800000;
    return found;
}

#endif
