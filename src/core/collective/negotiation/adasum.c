/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2021): two gradients a and b become
 * (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b: their sum if they are orthogonal, their mean if they are equal. Ranks
 * combine in pairs, pairs in fours and so on. Partners exchange whole vectors and compute the same, so that all ranks
 * get the same bits.
 */
#include "core/collective/negotiation/internal/negotiator.h"

#include "base/float_bits.h"

#include <string.h>

#define SUMS(type)                                                                                                     \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
        const double x = ((const type *)a)[i], y = ((const type *)b)[i];                                               \
        sums[0] += x * y;                                                                                              \
        sums[1] += x * x;                                                                                              \
        sums[2] += y * y;                                                                                              \
    }

#define COMBINE(type)                                                                                                  \
    for (uint64_t i = 0; i < count; i++)                                                                               \
    target[i] = (type)(first * ((const type *)a)[i] + second * ((const type *)b)[i])

static double factor_of(double product, double square)
{
    return square > 0 ? 1 - product / (2 * square) : 1;
}

/* target = Adasum of a and b. One of them may be the target. */
static void combine_f32(float *target, const void *a, const void *b, uint64_t count)
{
    double sums[3] = {0};
    SUMS(float)
    const double first = factor_of(sums[0], sums[1]), second = factor_of(sums[0], sums[2]);
    COMBINE(float);
}

static void combine_f64(double *target, const void *a, const void *b, uint64_t count)
{
    double sums[3] = {0};
    SUMS(double)
    const double first = factor_of(sums[0], sums[1]), second = factor_of(sums[0], sums[2]);
    COMBINE(double);
}

static weft_status swap_with(weft_negotiator *negotiator, int partner, const void *own, void *other, uint64_t count,
                             weft_type type, struct error *error)
{
    weft_request *requests[2] = {NULL, NULL};
    weft_status status = weft_receive_start(other, count, type, partner, negotiator->comm, &requests[0]);
    if (status == WEFT_OK)
        status = weft_send_start(own, count, type, partner, negotiator->comm, &requests[1]);
    const weft_status waited = weft_wait_all(requests, 2);
    status = status == WEFT_OK ? waited : status;
    return status == WEFT_OK ? WEFT_OK : negotiation_error(negotiator, status, error);
}

static weft_status combine_all(weft_negotiator *negotiator, void *values, void *other, uint64_t count, weft_type type,
                               struct error *error)
{
    for (int distance = 1; distance < negotiator->ranks; distance *= 2) {
        const int partner = negotiator->rank ^ distance;
        if (swap_with(negotiator, partner, values, other, count, type, error) != WEFT_OK)
            return error->status;
        const void *a = partner > negotiator->rank ? values : other, *b = partner > negotiator->rank ? other : values;
        if (type == WEFT_F64)
            combine_f64(values, a, b, count);
        else
            combine_f32(values, a, b, count);
    }
    return WEFT_OK;
}

/* ---- f16 and bf16, whose sums are in f32 ---- */

static void to_f32(const void *values, float *wide, uint64_t count, weft_type type)
{
    const uint16_t *half = values;
    for (uint64_t i = 0; i < count; i++)
        wide[i] = type == WEFT_F16 ? float_from_f16(half[i]) : float_from_bits((uint32_t)half[i] << 16);
}

/* To nearest, ties to even; a NaN stays one. */
static uint16_t to_bf16(float value)
{
    const uint32_t bits = float_to_bits(value);
    return value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static void from_f32(const float *wide, void *values, uint64_t count, weft_type type)
{
    uint16_t *half = values;
    for (uint64_t i = 0; i < count; i++)
        half[i] = type == WEFT_F16 ? float_to_f16(wide[i]) : to_bf16(wide[i]);
}

weft_status adasum_run(weft_negotiator *negotiator, void *values, uint64_t count, weft_type type, struct error *error)
{
    const bool is_half = type == WEFT_F16 || type == WEFT_BF16;
    const size_t bytes = count * (type == WEFT_F64 ? 8 : 4);
    uint8_t *memory = execute_memory(negotiator, 2 * bytes + 1, error);
    if (!memory)
        return error->status;
    if (!is_half)
        return combine_all(negotiator, values, memory, count, type, error);
    float *wide = (float *)(void *)memory;
    to_f32(values, wide, count, type);
    if (combine_all(negotiator, wide, memory + bytes, count, WEFT_F32, error) != WEFT_OK)
        return error->status;
    from_f32(wide, values, count, type);
    return WEFT_OK;
}
