/* SPDX-License-Identifier: Apache-2.0 */
#include "training/checkpoint/convert.h"

#include "base/float_bits.h"

bool convert_knows(weft_type type)
{
    return type == WEFT_F32 || type == WEFT_F16 || type == WEFT_BF16;
}

/* IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction. Scaling by 2^112 moves the exponent from one bias to
 * the other, denormals included, exactly. */
static float from_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;
    if (rest >= (uint32_t)0x7c00 << 13) /* infinite, or none */
        return float_from_bits(sign | 0x7f800000 | rest);
    return float_from_bits(sign | float_to_bits(float_from_bits(rest) * 0x1p112f));
}

static uint16_t convert_to_f16(float value)
{
    const uint16_t sign = (uint16_t)(float_to_bits(value) >> 16 & 0x8000);
    uint32_t bits = float_to_bits(value) & 0x7fffffff;
    if (bits > 0x7f800000)
        return sign | 0x7e00;
    if (bits >= 0x477ff000) /* 65520: halfway to the value that would follow the largest */
        return sign | 0x7c00;
    if (bits < 0x38800000) /* below 2^-14: adding 0.5 rounds to multiples of 2^-24, in the lowest bits */
        return sign | (uint16_t)(float_to_bits(float_from_bits(bits) + 0.5f) - float_to_bits(0.5f));
    bits += 0xfff + (bits >> 13 & 1);
    return sign | (uint16_t)((bits - ((uint32_t)112 << 23)) >> 13);
}

/* bf16 is the upper half of an f32. */
static uint16_t convert_to_bf16(float value)
{
    const uint32_t bits = float_to_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void convert_to_f32(weft_type type, size_t count, const void *from, float *to)
{
    const char *bytes = from;
    if (type == WEFT_F32) {
        if (count)
            memcpy(to, from, count * sizeof *to);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + i * sizeof half, sizeof half);
        to[i] = type == WEFT_F16 ? from_f16(half) : float_from_bits((uint32_t)half << 16);
    }
}

void convert_from_f32(weft_type type, size_t count, const void *from, void *to)
{
    const char *read = from;
    char *write = to;
    if (type == WEFT_F32) {
        if (count)
            memmove(to, from, count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < count; i++) { /* each write lies at or before the read position */
        float value;
        memcpy(&value, read + i * sizeof value, sizeof value);
        const uint16_t half = type == WEFT_F16 ? convert_to_f16(value) : convert_to_bf16(value);
        memcpy(write + i * sizeof half, &half, sizeof half);
    }
}
