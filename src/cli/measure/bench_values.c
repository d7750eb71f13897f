/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_values.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

/* The largest whole number up to which the type counts without gaps (or enough for any number of ranks). */
static double exact_most(weft_type type)
{
    return type == WEFT_I8 ? 127 : type == WEFT_U8 ? 255 : type == WEFT_BF16 ? 256 : type == WEFT_F16 ? 2048 : 1 << 24;
}

/* A mask of low bits such that `terms` numbers below it add up to something exact. */
static uint64_t mask_for(weft_type type, int terms)
{
    uint64_t mask = 0xffff;
    while (mask > 1 && (double)mask * terms > exact_most(type))
        mask >>= 1;
    return mask;
}

static double element(const struct bench_values *values, uint64_t mask, int rank, uint64_t index)
{
    uint64_t bits = random_bits((uint64_t)rank + 1, index);
    if (values->op.kind == WEFT_OP_PRODUCT) /* one rank has a two in one element of four */
        return (random_bits(0, index) >> 2) % (uint64_t)values->ranks == (uint64_t)rank &&
                       (random_bits(0, index) & 3) == 0
                   ? 2
                   : 1;
    return (double)(bits & mask);
}

static uint64_t mask_of(const struct bench_values *values)
{
    bool adds =
        values->op.kind == WEFT_OP_SUM || values->op.kind == WEFT_OP_AVERAGE || values->op.kind == WEFT_OP_SCALED_SUM;
    return mask_for(values->type, adds ? values->ranks : 1);
}

static bool is_float(weft_type type)
{
    return type == WEFT_F32 || type == WEFT_F64 || type == WEFT_F16 || type == WEFT_BF16;
}

/* The operation over the first `ranks` ranks, exactly, before it is rounded to the type. */
static double reduced(const struct bench_values *values, int ranks, uint64_t mask, uint64_t index)
{
    double result = element(values, mask, 0, index);
    for (int rank = 1; rank < ranks; rank++) {
        double next = element(values, mask, rank, index);
        switch (values->op.kind) {
        case WEFT_OP_PRODUCT:
            result *= next;
            break;
        case WEFT_OP_MIN:
            result = fmin(result, next);
            break;
        case WEFT_OP_MAX:
            result = fmax(result, next);
            break;
        default:
            result += next;
            break;
        }
    }
    if (values->op.kind == WEFT_OP_AVERAGE)
        result = values->type == WEFT_F64 ? result / values->ranks
                 : is_float(values->type) ? (double)((float)result / (float)values->ranks)
                                          : trunc(result / values->ranks);
    if (values->op.kind == WEFT_OP_SCALED_SUM)
        result =
            values->type == WEFT_F64 ? result * values->op.factor : (double)((float)result * (float)values->op.factor);
    return result;
}

/* To nearest, ties to even; the value is within the range of normal numbers, or 0. */
static uint16_t bench_values_to_f16(double exact)
{
    const float value = (float)exact;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == 0)
        return 0;
    uint32_t exponent = (bits >> 23) - 127 + 15, fraction = bits & 0x7fffff;
    uint32_t half = exponent << 10 | fraction >> 13;
    uint32_t rest = fraction & 0x1fff;
    return (uint16_t)(half + (rest > 0x1000 || (rest == 0x1000 && (half & 1))));
}

static uint16_t bench_values_to_bf16(double exact)
{
    const float value = (float)exact;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Write `value` as `type` to `place`. */
static void bench_values_store(weft_type type, double value, void *place)
{
#define STORE(kind, convert)                                                                                           \
    {                                                                                                                  \
        const kind converted = convert(value);                                                                         \
        memcpy(place, &converted, sizeof converted);                                                                   \
        return;                                                                                                        \
    }
    switch (type) {
    case WEFT_F32:
        STORE(float, (float))
    case WEFT_F64:
        STORE(double, )
    case WEFT_F16:
        STORE(uint16_t, bench_values_to_f16)
    case WEFT_BF16:
        STORE(uint16_t, bench_values_to_bf16)
    case WEFT_I8:
        STORE(int8_t, (int8_t))
    case WEFT_U8:
    case WEFT_BOOL: /* the command offers no operations on it */
        STORE(uint8_t, (uint8_t))
    case WEFT_I32:
        STORE(int32_t, (int32_t))
    case WEFT_U32:
        STORE(uint32_t, (uint32_t))
    case WEFT_I64:
        STORE(int64_t, (int64_t))
    case WEFT_U64:
        STORE(uint64_t, (uint64_t))
    }
#undef STORE
}

void bench_fill(const struct bench_values *values, int rank, size_t first, void *buffer, size_t count)
{
    size_t size = weft_type_size(values->type);
    uint64_t mask = mask_of(values);
    for (size_t i = 0; i < count; i++)
        bench_values_store(values->type, element(values, mask, rank, first + i), (char *)buffer + i * size);
}

size_t bench_check_moved(const struct bench_values *values, int rank, size_t first, const void *buffer, size_t count)
{
    size_t size = weft_type_size(values->type), wrong = 0;
    uint64_t mask = mask_of(values);
    for (size_t i = 0; i < count; i++) {
        uint64_t expected = 0;
        bench_values_store(values->type, element(values, mask, rank, first + i), &expected);
        wrong += memcmp(&expected, (const char *)buffer + i * size, size) != 0;
    }
    return wrong;
}

size_t bench_check_reduced(const struct bench_values *values, int ranks, size_t first, const void *buffer, size_t count)
{
    size_t size = weft_type_size(values->type), wrong = 0;
    uint64_t mask = mask_of(values);
    for (size_t i = 0; i < count; i++) {
        uint64_t expected = 0;
        bench_values_store(values->type, reduced(values, ranks, mask, first + i), &expected);
        wrong += memcmp(&expected, (const char *)buffer + i * size, size) != 0;
    }
    return wrong;
}
