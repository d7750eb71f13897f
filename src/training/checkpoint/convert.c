/* SPDX-License-Identifier: Apache-2.0 */
#include "training/checkpoint/convert.h"

#include "base/float_bits.h"

bool convert_knows(weft_type type)
{
    return type == WEFT_F32 || type == WEFT_F16 || type == WEFT_BF16;
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
        to[i] = type == WEFT_F16 ? float_from_f16(half) : float_from_bits((uint32_t)half << 16);
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
        const uint16_t half = type == WEFT_F16 ? float_to_f16(value) : convert_to_bf16(value);
        memcpy(write + i * sizeof half, &half, sizeof half);
    }
}
