/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of public weights: every half is the number that IEEE 754 says, and comes back; numbers between two halves
 * go to the nearer one, ties to even. */
#include "training/checkpoint/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The number that a half of so many bits of fraction is, by the definition. */
static double value_of(unsigned half, int fraction_bits, int bias)
{
    const int exponent_bits = 15 - fraction_bits;
    const int exponent = (int)(half >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double fraction = (double)(half & ((1u << fraction_bits) - 1)) / (double)(1u << fraction_bits);
    const double sign = half >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction != 0 ? NAN : sign * INFINITY;
    return exponent ? sign * ldexp(1 + fraction, exponent - bias) : sign * ldexp(fraction, 1 - bias);
}

static const struct {
    weft_type type;
    int fraction_bits, bias;
} types[] = {{WEFT_F16, 10, 15}, {WEFT_BF16, 7, 127}};

static void every_half_is_its_number_and_comes_back(void **state)
{
    for (size_t t = 0; t < 2; t++)
        for (unsigned half = 0; half < 65536; half++) {
            char unaligned[5];
            const uint16_t stored = (uint16_t)half;
            uint16_t back;
            float found;
            memcpy(unaligned + 1, &stored, sizeof stored);
            convert_to_f32(types[t].type, 1, unaligned + 1, &found);
            const double expected = value_of(half, types[t].fraction_bits, types[t].bias);
            if (isnan(expected) ? !isnan(found) : (double)found != expected || !signbit(found) != !signbit(expected))
                fail_msg("%s 0x%04x is %g, not %g", weft_type_name(types[t].type), half, (double)found, expected);
            convert_from_f32(types[t].type, 1, &found, &back);
            if (isnan(expected)) {
                convert_to_f32(types[t].type, 1, &back, &found);
                assert_true(isnan(found));
            } else {
                assert_int_equal(back, half);
            }
        }
}

/* Between neighbors a < b: below the middle a, above it b, in the middle the even one. */
static void numbers_between_go_to_the_nearest(void **state)
{
    for (size_t t = 0; t < 2; t++)
        for (unsigned half = 0; half < (unsigned)(types[t].type == WEFT_F16 ? 0x7bff : 0x7f7f); half++) {
            const double a = value_of(half, types[t].fraction_bits, types[t].bias),
                         b = value_of(half + 1, types[t].fraction_bits, types[t].bias);
            const float middle = (float)((a + b) / 2),
                        around[] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
            const unsigned expected[] = {half, half + half % 2, half + 1};
            uint16_t found[3], negative[3];
            float minus[3];
            for (size_t i = 0; i < 3; i++)
                minus[i] = -around[i];
            convert_from_f32(types[t].type, 3, around, found);
            convert_from_f32(types[t].type, 3, minus, negative);
            for (size_t i = 0; i < 3; i++)
                if (found[i] != expected[i] || negative[i] != (expected[i] | 0x8000))
                    fail_msg("%s of %.9g is 0x%04x, not 0x%04x", weft_type_name(types[t].type), (double)around[i],
                             found[i], expected[i]);
        }
}

static void what_is_too_large_is_infinite(void **state)
{
    const float large[] = {65504, 65519.996f, 65520, 3.4e38f, INFINITY};
    const uint16_t expected[] = {0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00};
    uint16_t found[5];
    convert_from_f32(WEFT_F16, 5, large, found);
    assert_memory_equal(found, expected, sizeof found);
    const float largest = 3.4028235e38f; /* of f32: beyond bf16's middle */
    convert_from_f32(WEFT_BF16, 1, &largest, found);
    assert_int_equal(found[0], 0x7f80);
}

static void in_place(void **state)
{
    float values[100], copy[100];
    uint16_t apart[100];
    for (int i = 0; i < 100; i++)
        values[i] = copy[i] = (float)i * 0.37f - 9;
    convert_from_f32(WEFT_BF16, 100, copy, apart);
    convert_from_f32(WEFT_BF16, 100, values, values);
    assert_memory_equal(values, apart, sizeof apart);
    assert_true(convert_knows(WEFT_F32) && convert_knows(WEFT_F16) && convert_knows(WEFT_BF16));
    assert_false(convert_knows(WEFT_F64) || convert_knows(WEFT_U8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_its_number_and_comes_back),
        cmocka_unit_test(numbers_between_go_to_the_nearest),
        cmocka_unit_test(what_is_too_large_is_infinite),
        cmocka_unit_test(in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
