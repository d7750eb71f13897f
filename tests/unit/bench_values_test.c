/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that the bench reduces: exact in every type, different by rank and place, and a wrong one is seen. */
#include "cli/measure/bench_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 257

/* Element i of `buffer` as a number. */
static double load(weft_type type, const void *buffer, size_t i)
{
    const uint16_t *halves = buffer;
    switch (type) {
    case WEFT_F32:
        return (double)((const float *)buffer)[i];
    case WEFT_F64:
        return ((const double *)buffer)[i];
    case WEFT_F16: /* the numbers are whole, 0 or normal */
        return halves[i] ? __builtin_ldexp(1024 + (halves[i] & 1023), (halves[i] >> 10) - 25) : 0;
    case WEFT_BF16: {
        uint32_t bits = (uint32_t)halves[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    case WEFT_I8:
        return ((const int8_t *)buffer)[i];
    case WEFT_U8:
    case WEFT_BOOL:
        return ((const uint8_t *)buffer)[i];
    case WEFT_I32:
        return ((const int32_t *)buffer)[i];
    case WEFT_U32:
        return ((const uint32_t *)buffer)[i];
    case WEFT_I64:
        return (double)((const int64_t *)buffer)[i];
    case WEFT_U64:
        return (double)((const uint64_t *)buffer)[i];
    }
    return 0;
}

/* Combine the numbers of one more rank into `result`. */
static void combine(const struct bench_values *values, double *result, const void *buffer, bool first)
{
    for (size_t i = 0; i < COUNT; i++) {
        double value = load(values->type, buffer, i);
        if (first)
            result[i] = value;
        else if (values->op.kind == WEFT_OP_SUM)
            result[i] += value;
        else if (values->op.kind == WEFT_OP_PRODUCT)
            result[i] *= value;
        else if (values->op.kind == WEFT_OP_MIN)
            result[i] = value < result[i] ? value : result[i];
        else
            result[i] = value > result[i] ? value : result[i];
    }
}

/* Combined here in double precision, where everything is exact, and converted by the compiler. */
static void every_type_and_operation_is_exact(void **state)
{
    static const weft_op_kind kinds[] = {WEFT_OP_SUM, WEFT_OP_PRODUCT, WEFT_OP_MIN, WEFT_OP_MAX};
    for (int type = 0; type < WEFT_TYPES; type++) {
        if (type == WEFT_F16 || type == WEFT_BF16 || type == WEFT_BOOL)
            continue; /* see below; bool has no numbers */
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            for (int ranks = 1; ranks <= 64; ranks *= 4) {
                struct bench_values values = {(weft_type)type, {kinds[k], 1}, ranks};
                double result[COUNT];
                char buffer[COUNT * 8];
                for (int rank = 0; rank < ranks; rank++) {
                    bench_fill(&values, rank, 5, buffer, COUNT);
                    assert_int_equal(bench_check_moved(&values, rank, 5, buffer, COUNT), 0);
                    combine(&values, result, buffer, rank == 0);
                }
                for (size_t i = 0; i < COUNT; i++) {
                    if (type == WEFT_F64)
                        memcpy(buffer + i * 8, &result[i], 8);
                    else if (type == WEFT_F32)
                        ((float *)(void *)buffer)[i] = (float)result[i];
                    else if (type == WEFT_I8 || type == WEFT_U8)
                        ((uint8_t *)buffer)[i] = (uint8_t)result[i];
                    else if (type == WEFT_I32 || type == WEFT_U32)
                        ((uint32_t *)(void *)buffer)[i] = (uint32_t)result[i];
                    else if (type == WEFT_I64 || type == WEFT_U64)
                        ((uint64_t *)(void *)buffer)[i] = (uint64_t)result[i];
                }
                assert_int_equal(bench_check_reduced(&values, values.ranks, 5, buffer, COUNT), 0);
                buffer[0] ^= 1;
                assert_int_equal(bench_check_reduced(&values, values.ranks, 5, buffer, COUNT), 1);
            }
        }
    }
}

/* In the short types too every sum is a whole number that the type holds. */
static void short_types_hold_their_sums(void **state)
{
    static const weft_type types[] = {WEFT_F16, WEFT_BF16};
    static const double most[] = {2048, 256};
    for (size_t t = 0; t < 2; t++) {
        for (int ranks = 1; ranks <= 256; ranks *= 2) {
            struct bench_values values = {types[t], WEFT_SUM, ranks};
            double result[COUNT];
            uint16_t buffer[COUNT];
            for (int rank = 0; rank < ranks; rank++) {
                bench_fill(&values, rank, 0, buffer, COUNT);
                combine(&values, result, buffer, rank == 0);
            }
            for (size_t i = 0; i < COUNT; i++)
                assert_true(result[i] <= most[t] && result[i] == (double)(long)result[i]);
        }
    }
}

static void ranks_and_places_differ(void **state)
{
    struct bench_values values = {WEFT_I32, WEFT_SUM, 4};
    int32_t buffer[COUNT];
    bench_fill(&values, 1, 0, buffer, COUNT);
    assert_true(bench_check_moved(&values, 2, 0, buffer, COUNT) > COUNT / 2);
    assert_true(bench_check_moved(&values, 1, 1, buffer, COUNT) > COUNT / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operation_is_exact),
        cmocka_unit_test(short_types_hold_their_sums),
        cmocka_unit_test(ranks_and_places_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
