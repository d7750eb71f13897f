/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reduction kernels against a reference that is written as the definition reads: a recursive tree, one element at a
 * time, rounding by arithmetic on doubles. Every type, op, number of sources and targets, finish and instruction set
 * gives the same bits.
 */
#include "base/random.h"
#include "core/collective/internal/reduction_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_SOURCES 40
#define MOST_BYTES   149760 /* with what lies around it, whole cache lines */

/* target = left op right */
static void reduce_pair(const struct reduction *reduction, weft_type type, weft_op_kind kind, void *target,
                        const void *left, const void *right, uint64_t count)
{
    reduction_tree(reduction, type, kind, &target, 1, (const void *[]){left, right}, 2, count, NULL, false);
}

static const char *const names[] = {"portable", "x86-64-v3", "x86-64-v4"};
static const struct reduction *variants[3]; /* NULL: not runnable here */
static const weft_op_kind kinds[] = {WEFT_OP_SUM,         WEFT_OP_PRODUCT,    WEFT_OP_MIN,         WEFT_OP_MAX,
                                     WEFT_OP_BITWISE_AND, WEFT_OP_BITWISE_OR, WEFT_OP_BITWISE_XOR, WEFT_OP_LOGICAL_AND,
                                     WEFT_OP_LOGICAL_OR,  WEFT_OP_LOGICAL_XOR};
#define KINDS           (sizeof kinds / sizeof *kinds)
#define KINDS_OF_FLOATS 4

/* ---- the reference ---- */

/* Round to a type with `precision` bits, least exponent `least` and infinity from 2^limit on; to nearest even. */
static double round_to(double value, int precision, int least, int limit)
{
    int exponent;
    if (value == 0 || !isfinite(value))
        return value;
    frexp(value, &exponent);
    int lowest = exponent - precision > least ? exponent - precision : least;
    double rounded = ldexp(nearbyint(ldexp(value, -lowest)), lowest);
    return fabs(rounded) >= ldexp(1, limit) ? copysign(INFINITY, value) : rounded;
}

static double decode(weft_type type, const unsigned char *place)
{
    float f32;
    double f64;
    uint16_t half;
    uint32_t bits;
    switch (type) {
    case WEFT_F32:
        memcpy(&f32, place, 4);
        return f32;
    case WEFT_F64:
        memcpy(&f64, place, 8);
        return f64;
    case WEFT_BF16:
        memcpy(&half, place, 2);
        bits = (uint32_t)half << 16;
        memcpy(&f32, &bits, 4);
        return f32;
    default:
        memcpy(&half, place, 2);
        int exponent = half >> 10 & 31, mantissa = half & 1023;
        double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                           : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                          : ldexp(mantissa, -24);
        return half & 0x8000 ? -magnitude : magnitude;
    }
}

/* The value is one of the type's. */
static void encode(weft_type type, double value, unsigned char *place)
{
    static const uint64_t nans[] = {
        [WEFT_F32] = 0x7fc00000, [WEFT_F64] = UINT64_C(0x7ff8000000000000), [WEFT_F16] = 0x7e00, [WEFT_BF16] = 0x7fc0};
    float f32 = (float)value;
    uint32_t bits;
    uint16_t half;
    if (isnan(value)) {
        memcpy(place, &nans[type], weft_type_size(type));
        return;
    }
    switch (type) {
    case WEFT_F32:
        memcpy(place, &f32, 4);
        break;
    case WEFT_F64:
        memcpy(place, &value, 8);
        break;
    case WEFT_BF16:
        memcpy(&bits, &f32, 4);
        half = (uint16_t)(bits >> 16);
        memcpy(place, &half, 2);
        break;
    default:
        half = signbit(value) ? 0x8000 : 0;
        value = fabs(value);
        if (isinf(value)) {
            half |= 0x7c00;
        } else if (value < ldexp(1, -14)) {
            half |= (uint16_t)ldexp(value, 24);
        } else {
            int exponent;
            double fraction = frexp(value, &exponent);
            half |= (uint16_t)((exponent + 14) << 10 | ((int)ldexp(fraction, 11) & 1023));
        }
        memcpy(place, &half, 2);
    }
}

static double round_as(weft_type type, double value)
{
    switch (type) {
    case WEFT_F64:
        return value;
    case WEFT_F32:
        return (float)value;
    case WEFT_BF16:
        return round_to((float)value, 8, -133, 128);
    default:
        return round_to((float)value, 11, -24, 16);
    }
}

/* f32 sums and products of f32 values: a double holds the product exactly and rounds the sum harmlessly (53 >= 2 x 24 +
 * 2). */
static double combine_floats(weft_type type, weft_op_kind kind, double a, double b)
{
    switch (kind) {
    case WEFT_OP_SUM:
        return round_as(type, a + b);
    case WEFT_OP_PRODUCT:
        return round_as(type, a * b);
    default:
        if (isnan(a) || isnan(b))
            return NAN;
        bool a_first = a < b || (a == b && signbit(a));
        return (kind == WEFT_OP_MIN) == a_first ? a : b;
    }
}

static bool is_float(weft_type type)
{
    return type <= WEFT_BF16;
}

static bool is_signed(weft_type type)
{
    return type == WEFT_I8 || type == WEFT_I32 || type == WEFT_I64;
}

static uint64_t load_integer(weft_type type, const unsigned char *place)
{
    uint64_t bits = 0;
    size_t bytes = weft_type_size(type);
    memcpy(&bits, place, bytes);
    if (is_signed(type) && bytes < 8 && bits >> (8 * bytes - 1))
        bits |= ~UINT64_C(0) << 8 * bytes;
    return type == WEFT_BOOL ? bits != 0 : bits;
}

static uint64_t combine_integers(weft_type type, weft_op_kind kind, uint64_t a, uint64_t b)
{
    bool a_first = is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
    switch (kind) {
    case WEFT_OP_SUM:
        a += b;
        break;
    case WEFT_OP_PRODUCT:
        a *= b;
        break;
    case WEFT_OP_BITWISE_AND:
        return a & b;
    case WEFT_OP_BITWISE_OR:
        return a | b;
    case WEFT_OP_BITWISE_XOR:
        return a ^ b;
    case WEFT_OP_LOGICAL_AND:
        return a && b;
    case WEFT_OP_LOGICAL_OR:
        return a || b;
    case WEFT_OP_LOGICAL_XOR:
        return !a != !b;
    default:
        return (kind == WEFT_OP_MIN) == a_first ? a : b;
    }
    unsigned char wrapped[8];
    memcpy(wrapped, &a, 8);
    return load_integer(type, wrapped);
}

static uint32_t split(uint32_t count)
{
    uint32_t half = 1;
    while (2 * half < count)
        half *= 2;
    return half;
}

static double tree_of_floats(weft_type type, weft_op_kind kind, const void *const *sources, uint32_t count, uint64_t at)
{
    if (count == 1)
        return decode(type, (const unsigned char *)sources[0] + at);
    uint32_t half = split(count);
    return combine_floats(type, kind, tree_of_floats(type, kind, sources, half, at),
                          tree_of_floats(type, kind, sources + half, count - half, at));
}

static uint64_t tree_of_integers(weft_type type, weft_op_kind kind, const void *const *sources, uint32_t count,
                                 uint64_t at)
{
    if (count == 1)
        return load_integer(type, (const unsigned char *)sources[0] + at);
    uint32_t half = split(count);
    return combine_integers(type, kind, tree_of_integers(type, kind, sources, half, at),
                            tree_of_integers(type, kind, sources + half, count - half, at));
}

static double finish_float(weft_type type, const struct reduction_finish *finish, double value)
{
    double divisor = type == WEFT_F64 ? (double)finish->divisor : (float)finish->divisor;
    double factor = type == WEFT_F64 ? finish->factor : (float)finish->factor;
    /* of f32 values: rounding a quotient or product to double first changes nothing */
    return round_as(type, finish->kind == REDUCTION_FINISH_DIVIDE ? value / divisor : value * factor);
}

static void reference(weft_type type, weft_op_kind kind, unsigned char *target, const void *const *sources,
                      uint32_t source_count, uint64_t count, const struct reduction_finish *finish)
{
    size_t bytes = weft_type_size(type);
    bool finishes = finish && finish->kind != REDUCTION_FINISH_NONE;
    for (uint64_t i = 0; i < count; i++) {
        unsigned char *place = target + i * bytes;
        if (source_count == 1 && !finishes) {
            memcpy(place, (const char *)sources[0] + i * bytes, bytes);
        } else if (is_float(type)) {
            double value = tree_of_floats(type, kind, sources, source_count, i * bytes);
            encode(type, finishes ? finish_float(type, finish, value) : value, place);
        } else {
            uint64_t value = tree_of_integers(type, kind, sources, source_count, i * bytes);
            if (finishes && finish->kind == REDUCTION_FINISH_TRUTH)
                value = value != 0;
            else if (finishes)
                value =
                    is_signed(type) ? (uint64_t)((int64_t)value / (int64_t)finish->divisor) : value / finish->divisor;
            memcpy(place, &value, bytes);
        }
    }
}

static bool op_fits(weft_type type, weft_op_kind kind)
{
    if (is_float(type))
        return kind < WEFT_OP_BITWISE_AND;
    return type != WEFT_BOOL || (kind != WEFT_OP_SUM && kind != WEFT_OP_PRODUCT);
}

/* ---- cases ---- */

/* Elements of every sort: ordinary ones, random bits (all exponents, NaNs with payloads), zeroes, infinities,
 * denormals, ties. */
static void draw_elements(weft_type type, unsigned char *place, uint64_t count, uint64_t seed)
{
    size_t bytes = weft_type_size(type);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(seed, i), sort = bits >> 58;
        unsigned char *element = place + i * bytes;
        memcpy(element, &bits, bytes);
        if (!is_float(type) && sort < 8) /* logical operations look for it */
            memset(element, 0, bytes);
        if (!is_float(type) || sort < 8)
            continue;
        double value = random_normal(seed + 1, i);
        if (sort == 8)
            value = bits & 1 ? 0.0 : -0.0;
        else if (sort == 9)
            value = bits & 1 ? INFINITY : -INFINITY;
        else if (sort < 14)
            value = ldexp(value, type == WEFT_F16 ? -20 : type == WEFT_F64 ? -1060 : -140);
        else if (sort < 20)
            value = ldexp(nearbyint(8 * value), type == WEFT_F16 ? 7 : 20);
        encode(type, round_as(type, value), element);
    }
}

/* Buffers at odd places, with a guard around the targets. */
struct field {
    unsigned char *memory;
    const void *sources[MOST_SOURCES];
    unsigned char *targets[4], *expected;
};

static struct field field_open(void)
{
    struct field field = {.memory = aligned_alloc(64, (MOST_SOURCES + 5) * (uint64_t)(MOST_BYTES + 256))};
    assert_non_null(field.memory);
    return field;
}

static void field_lay(struct field *field, weft_type type, uint32_t source_count, uint64_t count, uint64_t seed,
                      bool aligned)
{
    for (uint32_t i = 0; i < MOST_SOURCES + 5; i++) {
        uint64_t shift = aligned ? 64 : 64 + random_bits(seed, 1000 + i) % 64;
        unsigned char *place = field->memory + i * (uint64_t)(MOST_BYTES + 256) + shift;
        if (i < MOST_SOURCES)
            field->sources[i] = place;
        else if (i < MOST_SOURCES + 4)
            field->targets[i - MOST_SOURCES] = place;
        else
            field->expected = place;
        if (i < source_count)
            draw_elements(type, place, count, seed * 64 + i);
    }
}

static void run_case(const struct reduction *reduction, struct field *field, weft_type type, weft_op_kind kind,
                     uint32_t source_count, uint32_t target_count, uint64_t count,
                     const struct reduction_finish *finish, bool streaming, bool in_place)
{
    uint64_t bytes = count * weft_type_size(type);
    void *targets[4];
    for (uint32_t i = 0; i < target_count; i++) {
        targets[i] = in_place && i < source_count ? (void *)field->sources[source_count - 1 - i] : field->targets[i];
        if (targets[i] == field->targets[i])
            memset(field->targets[i] - 16, 0x5a, bytes + 32);
    }
    reduction_tree(reduction, type, kind, targets, target_count, field->sources, source_count, count, finish,
                   streaming);
    for (uint32_t i = 0; i < target_count; i++) {
        if (memcmp(targets[i], field->expected, bytes) != 0) {
            uint64_t at = 0;
            while (((unsigned char *)targets[i])[at] == field->expected[at])
                at++;
            fail_msg(
                "%s %s %s: %u sources, target %u of %u, %llu elements, streaming %d, in place %d: byte %llu differs",
                reduction->name, weft_type_name(type), weft_op_name(kind), source_count, i, target_count,
                (unsigned long long)count, streaming, in_place, (unsigned long long)at);
        }
        for (uint64_t guard = 0; targets[i] == field->targets[i] && guard < 16; guard++)
            if (field->targets[i][bytes + guard] != 0x5a || field->targets[i][-1 - (int64_t)guard] != 0x5a)
                fail_msg("a store beyond the target");
    }
}

/* Several targets: longer than what is copied on at a time. */
static void long_results_reach_all_targets(void **state)
{
    static const uint32_t source_counts[] = {1, 2, 3, 5, 8};
    struct field field = field_open();
    for (size_t s = 0; s < sizeof source_counts / sizeof *source_counts; s++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            const uint32_t source_count = source_counts[s];
            const uint64_t count = 16384 * (1 + seed % 2) + seed / 2 * 101;
            const bool in_place = seed & 1, streaming = seed & 2;
            struct reduction_finish finish = {seed & 4 ? REDUCTION_FINISH_DIVIDE : REDUCTION_FINISH_NONE, source_count,
                                              1};
            field_lay(&field, WEFT_F32, source_count, count, seed, seed % 3 == 0);
            reference(WEFT_F32, WEFT_OP_SUM, field.expected, field.sources, source_count, count, &finish);
            run_case(reduction_best(), &field, WEFT_F32, WEFT_OP_SUM, source_count, 1 + seed % 3, count, &finish,
                     streaming, in_place);
        }
    free(field.memory);
    (void)state;
}

static void every_kernel_gives_the_reference_bits(void **state)
{
    static const uint32_t source_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 31, 40};
    static const uint64_t sizes[] = {1, 5, 17, 700, 5001, 9003}; /* bytes */
    struct field field = field_open();
    uint64_t seed = 1;
    for (int type = 0; type < WEFT_TYPES; type++)
        for (size_t k = 0; k < KINDS; k++)
            for (size_t s = 0; s < sizeof source_counts / sizeof *source_counts; s++) {
                uint32_t source_count = source_counts[s];
                if (!op_fits((weft_type)type, kinds[k]))
                    continue;
                seed++;
                uint64_t count = 1 + sizes[seed % 6] / weft_type_size((weft_type)type);
                struct reduction_finish finish = {REDUCTION_FINISH_NONE, source_count, 0.37};
                if (type == WEFT_BOOL || kinds[k] >= WEFT_OP_LOGICAL_AND)
                    finish.kind = REDUCTION_FINISH_TRUTH;
                else if (seed % 3 == 1)
                    finish.kind = REDUCTION_FINISH_DIVIDE;
                if (seed % 3 == 2 && is_float((weft_type)type))
                    finish.kind = REDUCTION_FINISH_MULTIPLY;
                field_lay(&field, (weft_type)type, source_count, count, seed, seed % 4 == 0);
                reference((weft_type)type, kinds[k], field.expected, field.sources, source_count, count, &finish);
                for (size_t n = 0; n < 3; n++) {
                    const struct reduction *reduction = variants[n];
                    if (!reduction)
                        continue;
                    for (uint32_t target_count = 1; target_count <= 4; target_count++)
                        for (int streaming = 0; streaming < 2; streaming++)
                            run_case(reduction, &field, (weft_type)type, kinds[k], source_count, target_count, count,
                                     &finish, streaming, false);
                    /* in place destroys the sources: lay them again */
                    for (int streaming = 0; streaming < 2; streaming++) {
                        run_case(reduction, &field, (weft_type)type, kinds[k], source_count, 1 + seed % 3, count,
                                 &finish, streaming, true);
                        field_lay(&field, (weft_type)type, source_count, count, seed, seed % 4 == 0);
                    }
                }
            }
    free(field.memory);
}

/* The loops without a finish for small numbers of sources, at every size around the vectors' and the blocks'. */
static void every_size_around_the_vectors(void **state)
{
    struct field field = field_open();
    for (int type = 0; type < WEFT_TYPES; type++)
        for (uint32_t source_count = 2; source_count <= 9; source_count++)
            for (uint64_t count = 0; count < 1100; count += count < 70 ? 1 : 171) {
                weft_op_kind kind = kinds[(count + source_count) % KINDS];
                if (!op_fits((weft_type)type, kind))
                    kind = WEFT_OP_MIN;
                field_lay(&field, (weft_type)type, source_count, count, count, count % 2);
                reference((weft_type)type, kind, field.expected, field.sources, source_count, count, NULL);
                for (size_t n = 0; n < 3; n++) {
                    const struct reduction *reduction = variants[n];
                    if (reduction)
                        for (uint32_t target_count = 1; target_count <= 2; target_count++)
                            run_case(reduction, &field, (weft_type)type, kind, source_count, target_count, count, NULL,
                                     false, false);
                }
            }
    free(field.memory);
}

/* f16 and bf16 are small enough to try every value against a few others. */
static void every_value_of_the_16_bit_types(void **state)
{
    static uint16_t left[65536], right[65536], results[3][65536];
    unsigned char expected[2];
    for (int type = WEFT_F16; type <= WEFT_BF16; type++)
        for (size_t k = 0; k < KINDS_OF_FLOATS; k++)
            for (uint64_t round = 0; round < 6; round++) {
                for (uint32_t i = 0; i < 65536; i++) {
                    left[i] = (uint16_t)i;
                    right[i] = (uint16_t)(round == 0 ? i : round == 1 ? i + 1 : random_bits(round, i));
                }
                const void *sources[] = {left, right};
                for (size_t n = 0; n < 3; n++)
                    if (variants[n])
                        reduce_pair(variants[n], (weft_type)type, kinds[k], results[n], left, right, 65536);
                for (uint32_t i = 0; i < 65536; i++) {
                    encode((weft_type)type, tree_of_floats((weft_type)type, kinds[k], sources, 2, 2 * i), expected);
                    for (size_t n = 0; n < 3; n++)
                        if (variants[n] && memcmp(&results[n][i], expected, 2) != 0)
                            fail_msg("%s %s %s of %#x and %#x is %#x", names[n], weft_type_name((weft_type)type),
                                     weft_op_name(kinds[k]), left[i], right[i], results[n][i]);
                }
            }
}

static void min_and_max_do_not_depend_on_order(void **state)
{
    const float zero = 0.0f, negative = -0.0f;
    float result;
    const struct reduction *reduction = reduction_best();
    for (int swapped = 0; swapped < 2; swapped++) {
        const float *left = swapped ? &negative : &zero, *right = swapped ? &zero : &negative;
        reduce_pair(reduction, WEFT_F32, WEFT_OP_MIN, &result, left, right, 1);
        assert_true(signbit(result));
        reduce_pair(reduction, WEFT_F32, WEFT_OP_MAX, &result, left, right, 1);
        assert_false(signbit(result));
    }
}

static void what_follows_the_sum(void **state)
{
    struct reduction_finish finish = reduction_finish_of(WEFT_I32, WEFT_AVERAGE, 4);
    assert_int_equal(finish.kind, REDUCTION_FINISH_DIVIDE);
    assert_int_equal(finish.divisor, 4);
    assert_int_equal(reduction_finish_of(WEFT_I32, WEFT_SUM, 4).kind, REDUCTION_FINISH_NONE);
    assert_int_equal(reduction_finish_of(WEFT_I32, WEFT_AVERAGE, 1).kind, REDUCTION_FINISH_NONE);
    assert_int_equal(reduction_finish_of(WEFT_F32, WEFT_SCALED_SUM(0.5), 4).kind, REDUCTION_FINISH_MULTIPLY);
    assert_int_equal(reduction_finish_of(WEFT_I32, WEFT_BITWISE_OR, 4).kind, REDUCTION_FINISH_NONE);
    assert_int_equal(reduction_finish_of(WEFT_I32, WEFT_LOGICAL_OR, 1).kind, REDUCTION_FINISH_TRUTH);
    assert_int_equal(reduction_finish_of(WEFT_BOOL, WEFT_MIN, 1).kind, REDUCTION_FINISH_TRUTH);
    int32_t values[] = {7, -7, 3, -3};
    reduction_finish(reduction_best(), WEFT_I32, values, 4, &finish);
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], -1);
    assert_int_equal(values[2], 0);
    assert_int_equal(values[3], 0);
}

static void instruction_sets_are_chosen_by_name(void **state)
{
    assert_non_null(reduction_named("portable"));
    assert_null(reduction_named("pdp-11"));
    assert_ptr_equal(reduction_named(reduction_best()->name), reduction_best());
}

int main(void)
{
    for (size_t n = 0; n < 3; n++)
        variants[n] = reduction_named(names[n]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gives_the_reference_bits), cmocka_unit_test(long_results_reach_all_targets),
        cmocka_unit_test(every_size_around_the_vectors),         cmocka_unit_test(every_value_of_the_16_bit_types),
        cmocka_unit_test(min_and_max_do_not_depend_on_order),    cmocka_unit_test(what_follows_the_sum),
        cmocka_unit_test(instruction_sets_are_chosen_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
