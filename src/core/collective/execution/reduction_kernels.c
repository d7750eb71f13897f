/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the reduction kernels. Plain C that the compiler vectorizes, compiled once for each instruction set with
 * REDUCTION_TABLE and REDUCTION_NAME saying which; only f16 uses intrinsics where the processor converts it (F16C,
 * AVX-512), since compilers do not vectorize that, and streaming stores have no plain C form.
 *
 * Equal bits everywhere: every loop does the same IEEE operations for an element, in the same order; a NaN is made the
 * one canonical NaN when it is stored. The processors' own bf16 conversions are not used: they flush denormals.
 */
#include "core/collective/internal/reduction_kernels.h"

#include "base/float_bits.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define SAME_INDEX_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define SAME_INDEX_LOOP _Pragma("GCC ivdep") /* a target may be a source: then each element depends on itself alone */
#endif

#define STORED_AS(type, name) typedef type name __attribute__((aligned(1), may_alias))
STORED_AS(float, stored_f32);
STORED_AS(double, stored_f64);
STORED_AS(uint16_t, stored_u16);
STORED_AS(int8_t, stored_i8);
STORED_AS(uint8_t, stored_u8);
STORED_AS(int32_t, stored_i32);
STORED_AS(uint32_t, stored_u32);
STORED_AS(int64_t, stored_i64);
STORED_AS(uint64_t, stored_u64);

/* ---- values: how each type is loaded, combined and stored ---- */

#define SUM(a, b)     ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define LESS(a, b)    ((a) < (b) ? (a) : (b))
#define MORE(a, b)    ((a) > (b) ? (a) : (b))
#define AND(a, b)     ((a) & (b))
#define OR(a, b)      ((a) | (b))
#define XOR(a, b)     ((a) ^ (b))

/*
 * Equal values can differ only in the sign of zero: "or" gives -0. With a NaN, "or" gives a NaN. max(a, b) = -min(-a,
 * -b).
 */
#define MIN_AND_MAX(NAME, T, FROM_BITS, TO_BITS)                                                                       \
    static inline T min_##NAME(T a, T b)                                                                               \
    {                                                                                                                  \
        T either = FROM_BITS(TO_BITS(a) | TO_BITS(b));                                                                 \
        T rest = b < a ? b : either;                                                                                   \
        return a < b ? a : rest;                                                                                       \
    }                                                                                                                  \
    static inline T max_##NAME(T a, T b)                                                                               \
    {                                                                                                                  \
        return -min_##NAME(-a, -b);                                                                                    \
    }
MIN_AND_MAX(f32, float, float_from_bits, float_to_bits)
MIN_AND_MAX(f64, double, double_from_bits, double_to_bits)

static inline float canonical_f32(float value)
{
    return value == value ? value : float_from_bits(0x7fc00000u);
}

static inline double canonical_f64(double value)
{
    return value == value ? value : double_from_bits(UINT64_C(0x7ff8000000000000));
}

/* bf16 is the upper half of an f32. Rounding adds at most 0x8000, which cannot make an infinity of a NaN whose lower
 * half is 0. */
static inline float load_bf16(uint16_t stored)
{
    return float_from_bits((uint32_t)stored << 16);
}

static inline float round_bf16(float value)
{
    uint32_t bits = float_to_bits(value);
    return float_from_bits((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

static inline uint16_t store_bf16(float value)
{
    return value == value ? (uint16_t)(float_to_bits(value) >> 16) : 0x7fc0;
}

static inline float sum_bf16(float a, float b)
{
    return round_bf16(a + b);
}

static inline float product_bf16(float a, float b)
{
    return round_bf16(a * b);
}

/* Integers wrap: they are combined as unsigned. Small ones are promoted, and truncated when stored. */
#define AS_IT_IS(value) (value)
#define CUT_U8(value)   ((uint8_t)(value))
#define IS_TRUE(value)  ((value) != 0)

/* ---- f16: by software, or eight or sixteen at a time ---- */

#if defined(__AVX512F__)
#define HALF_LANES 16
#elif defined(__F16C__)
#define HALF_LANES 8
#endif

#if defined(HALF_LANES)

typedef float lanes __attribute__((vector_size(4 * HALF_LANES)));
typedef int32_t lane_bits __attribute__((vector_size(4 * HALF_LANES)));
typedef int16_t half_lanes __attribute__((vector_size(2 * HALF_LANES)));
typedef half_lanes stored_half_lanes __attribute__((aligned(1), may_alias));

static inline lanes load_halves(half_lanes stored)
{
#if HALF_LANES == 16
    return (lanes)_mm512_cvtph_ps((__m256i)stored);
#else
    return (lanes)_mm256_cvtph_ps((__m128i)stored);
#endif
}

static inline half_lanes narrow(lanes value)
{
#if HALF_LANES == 16
    return (half_lanes)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    return (half_lanes)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#endif
}

static inline lanes select_lanes(lane_bits mask, lanes yes, lanes no)
{
    return (lanes)((mask & (lane_bits)yes) | (~mask & (lane_bits)no));
}

static inline half_lanes store_halves(lanes value)
{
    return narrow(select_lanes(value == value, value, (lanes)((lane_bits){0} + 0x7fc00000)));
}

static inline lanes sum_halves(lanes a, lanes b)
{
    return load_halves(narrow(a + b));
}

static inline lanes product_halves(lanes a, lanes b)
{
    return load_halves(narrow(a * b));
}

static inline lanes min_halves(lanes a, lanes b)
{
    lanes either = (lanes)((lane_bits)a | (lane_bits)b);
    return select_lanes(a < b, a, select_lanes(b < a, b, either));
}

static inline lanes max_halves(lanes a, lanes b)
{
    return -min_halves(-a, -b);
}

#else

static inline float sum_half(float a, float b)
{
    return float_from_f16(float_to_f16(a + b));
}

static inline float product_half(float a, float b)
{
    return float_from_f16(float_to_f16(a * b));
}

#endif

/* ---- loops ---- */

#define SOURCE(T, k)                     const T *s##k = (const T *)((const char *)sources[k] + offset);
#define SOURCES2(T)                      SOURCE(T, 0) SOURCE(T, 1)
#define SOURCES3(T)                      SOURCES2(T) SOURCE(T, 2)
#define SOURCES4(T)                      SOURCES3(T) SOURCE(T, 3)
#define SOURCES8(T)                      SOURCES4(T) SOURCE(T, 4) SOURCE(T, 5) SOURCE(T, 6) SOURCE(T, 7)
#define TREE2(LOAD, COMBINE, a, b)       COMBINE(LOAD(s##a[i]), LOAD(s##b[i]))
#define TREE3(LOAD, COMBINE)             COMBINE(TREE2(LOAD, COMBINE, 0, 1), LOAD(s2[i]))
#define TREE4(LOAD, COMBINE, a, b, c, d) COMBINE(TREE2(LOAD, COMBINE, a, b), TREE2(LOAD, COMBINE, c, d))
#define TREE8(LOAD, COMBINE)             COMBINE(TREE4(LOAD, COMBINE, 0, 1, 2, 3), TREE4(LOAD, COMBINE, 4, 5, 6, 7))

#define LOOP(NAME, T, SOURCES, VALUE)                                                                                  \
    static void NAME(void *target, const void *const *sources, uint64_t offset, uint64_t count)                        \
    {                                                                                                                  \
        T *t = target;                                                                                                 \
        SOURCES(T)                                                                                                     \
        SAME_INDEX_LOOP for (uint64_t i = 0; i < count; i++) t[i] = VALUE;                                             \
    }

/* The four loops of struct reduction_loops for one type and op. */
#define LOOPS(NAME, T, LOAD, STORE, COMBINE)                                                                           \
    LOOP(NAME##_two, T, SOURCES2, STORE(TREE2(LOAD, COMBINE, 0, 1)))                                                   \
    LOOP(NAME##_three, T, SOURCES3, STORE(TREE3(LOAD, COMBINE)))                                                       \
    LOOP(NAME##_four, T, SOURCES4, STORE(TREE4(LOAD, COMBINE, 0, 1, 2, 3)))                                            \
    LOOP(NAME##_eight, T, SOURCES8, STORE(TREE8(LOAD, COMBINE)))

#define SUM_AND_PRODUCT_LOOPS(NAME, T, LOAD, STORE, ADD, TIMES)                                                        \
    LOOPS(NAME##_sum, T, LOAD, STORE, ADD)                                                                             \
    LOOPS(NAME##_product, T, LOAD, STORE, TIMES)
#define BIT_LOOPS(NAME, T, LOAD)                                                                                       \
    LOOPS(NAME##_and, T, LOAD, AS_IT_IS, AND)                                                                          \
    LOOPS(NAME##_or, T, LOAD, AS_IT_IS, OR)                                                                            \
    LOOPS(NAME##_xor, T, LOAD, AS_IT_IS, XOR)
#define MIN_AND_MAX_LOOPS(NAME, T, LOAD, STORE, LEAST, MOST)                                                           \
    LOOPS(NAME##_min, T, LOAD, STORE, LEAST)                                                                           \
    LOOPS(NAME##_max, T, LOAD, STORE, MOST)

SUM_AND_PRODUCT_LOOPS(f32, stored_f32, AS_IT_IS, canonical_f32, SUM, PRODUCT)
MIN_AND_MAX_LOOPS(f32, stored_f32, AS_IT_IS, canonical_f32, min_f32, max_f32)
SUM_AND_PRODUCT_LOOPS(f64, stored_f64, AS_IT_IS, canonical_f64, SUM, PRODUCT)
MIN_AND_MAX_LOOPS(f64, stored_f64, AS_IT_IS, canonical_f64, min_f64, max_f64)
SUM_AND_PRODUCT_LOOPS(bf16, stored_u16, load_bf16, store_bf16, sum_bf16, product_bf16)
MIN_AND_MAX_LOOPS(bf16, stored_u16, load_bf16, store_bf16, min_f32, max_f32)
SUM_AND_PRODUCT_LOOPS(bits8, stored_u8, AS_IT_IS, CUT_U8, SUM, PRODUCT)
SUM_AND_PRODUCT_LOOPS(bits32, stored_u32, AS_IT_IS, AS_IT_IS, SUM, PRODUCT)
SUM_AND_PRODUCT_LOOPS(bits64, stored_u64, AS_IT_IS, AS_IT_IS, SUM, PRODUCT)
MIN_AND_MAX_LOOPS(i8, stored_i8, AS_IT_IS, AS_IT_IS, LESS, MORE)
MIN_AND_MAX_LOOPS(u8, stored_u8, AS_IT_IS, AS_IT_IS, LESS, MORE)
MIN_AND_MAX_LOOPS(i32, stored_i32, AS_IT_IS, AS_IT_IS, LESS, MORE)
MIN_AND_MAX_LOOPS(u32, stored_u32, AS_IT_IS, AS_IT_IS, LESS, MORE)
MIN_AND_MAX_LOOPS(i64, stored_i64, AS_IT_IS, AS_IT_IS, LESS, MORE)
MIN_AND_MAX_LOOPS(u64, stored_u64, AS_IT_IS, AS_IT_IS, LESS, MORE)
BIT_LOOPS(bits8, stored_u8, AS_IT_IS)
BIT_LOOPS(bits32, stored_u32, AS_IT_IS)
BIT_LOOPS(bits64, stored_u64, AS_IT_IS)
BIT_LOOPS(truth8, stored_u8, IS_TRUE)
BIT_LOOPS(truth32, stored_u32, IS_TRUE)
BIT_LOOPS(truth64, stored_u64, IS_TRUE)

#if defined(HALF_LANES)

SUM_AND_PRODUCT_LOOPS(f16_lanes, stored_half_lanes, load_halves, store_halves, sum_halves, product_halves)
MIN_AND_MAX_LOOPS(f16_lanes, stored_half_lanes, load_halves, store_halves, min_halves, max_halves)

/* Run a loop over whole vectors, then once more over the rest, padded. */
static void run_lanes(reduction_loop *loop, unsigned source_count, void *target, const void *const *sources,
                      uint64_t offset, uint64_t count)
{
    half_lanes padded[8] = {0}, result;
    const void *rests[8];
    uint64_t whole = count / HALF_LANES, rest = count % HALF_LANES * 2;
    if (whole)
        loop(target, sources, offset, whole);
    if (!rest)
        return;
    for (unsigned k = 0; k < source_count; k++) {
        memcpy(&padded[k], (const char *)sources[k] + offset + whole * sizeof result, rest);
        rests[k] = &padded[k];
    }
    loop(&result, rests, 0, 1);
    memcpy((char *)target + whole * sizeof result, &result, rest);
}

#define HALF_LOOP(OP, NAME, COUNT)                                                                                     \
    static void f16_##OP##_##NAME(void *target, const void *const *sources, uint64_t offset, uint64_t count)           \
    {                                                                                                                  \
        run_lanes(f16_lanes_##OP##_##NAME, COUNT, target, sources, offset, count);                                     \
    }
#define HALF_LOOPS(OP) HALF_LOOP(OP, two, 2) HALF_LOOP(OP, three, 3) HALF_LOOP(OP, four, 4) HALF_LOOP(OP, eight, 8)
HALF_LOOPS(sum)
HALF_LOOPS(product)
HALF_LOOPS(min)
HALF_LOOPS(max)

#define SCALE_HALVES(NAME, NUMBER, OPERATOR)                                                                           \
    static void f16_##NAME(void *target, uint64_t count, NUMBER number)                                                \
    {                                                                                                                  \
        lanes by = (lanes){0} + (float)number;                                                                         \
        for (uint64_t i = 0; i < count; i += HALF_LANES) {                                                             \
            half_lanes padded = {0};                                                                                   \
            uint64_t bytes = 2 * (count - i < HALF_LANES ? count - i : HALF_LANES);                                    \
            memcpy(&padded, (char *)target + 2 * i, bytes);                                                            \
            padded = store_halves(load_halves(padded) OPERATOR by);                                                    \
            memcpy((char *)target + 2 * i, &padded, bytes);                                                            \
        }                                                                                                              \
    }
SCALE_HALVES(divide, uint64_t, /)
SCALE_HALVES(multiply, double, *)

#else

SUM_AND_PRODUCT_LOOPS(f16, stored_u16, float_from_f16, float_to_f16, sum_half, product_half)
MIN_AND_MAX_LOOPS(f16, stored_u16, float_from_f16, float_to_f16, min_f32, max_f32)

#endif

/* ---- finish ---- */

#define SCALE(NAME, NUMBER, OPERATOR, T, WIDE, LOAD, STORE)                                                            \
    static void NAME(void *target, uint64_t count, NUMBER number)                                                      \
    {                                                                                                                  \
        T *t = target;                                                                                                 \
        WIDE by = (WIDE)number;                                                                                        \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            t[i] = STORE(LOAD(t[i]) OPERATOR by);                                                                      \
    }
#define DIVIDE(NAME, ...)              SCALE(NAME##_divide, uint64_t, /, __VA_ARGS__)
#define DIVIDE_AND_MULTIPLY(NAME, ...) DIVIDE(NAME, __VA_ARGS__) SCALE(NAME##_multiply, double, *, __VA_ARGS__)

static inline uint16_t round_and_store_bf16(float value)
{
    return store_bf16(value == value ? round_bf16(value) : value);
}

DIVIDE_AND_MULTIPLY(f32, stored_f32, float, AS_IT_IS, canonical_f32)
DIVIDE_AND_MULTIPLY(f64, stored_f64, double, AS_IT_IS, canonical_f64)
DIVIDE_AND_MULTIPLY(bf16, stored_u16, float, load_bf16, round_and_store_bf16)
DIVIDE(i8, stored_i8, int64_t, AS_IT_IS, (int8_t))
DIVIDE(u8, stored_u8, uint64_t, AS_IT_IS, (uint8_t))
DIVIDE(i32, stored_i32, int64_t, AS_IT_IS, (int32_t))
DIVIDE(u32, stored_u32, uint64_t, AS_IT_IS, (uint32_t))
DIVIDE(i64, stored_i64, int64_t, AS_IT_IS, AS_IT_IS)
DIVIDE(u64, stored_u64, uint64_t, AS_IT_IS, AS_IT_IS)
#if !defined(HALF_LANES)
DIVIDE_AND_MULTIPLY(f16, stored_u16, float, float_from_f16, float_to_f16)
#endif

#define TRUTH(NAME, T)                                                                                                 \
    static void NAME##_values(void *target, uint64_t count)                                                            \
    {                                                                                                                  \
        T *t = target;                                                                                                 \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            t[i] = IS_TRUE(t[i]);                                                                                      \
    }
TRUTH(truth8, stored_u8)
TRUTH(truth32, stored_u32)
TRUTH(truth64, stored_u64)

/* ---- streaming ---- */

#if defined(__AVX512F__)
typedef __m512i stream_word;
#define stream_load(place)         _mm512_loadu_si512(place)
#define stream_store(place, value) _mm512_stream_si512((stream_word *)(place), value)
#elif defined(__AVX__)
typedef __m256i stream_word;
#define stream_load(place)         _mm256_loadu_si256((const stream_word *)(place))
#define stream_store(place, value) _mm256_stream_si256((stream_word *)(place), value)
#elif defined(__SSE2__)
typedef __m128i stream_word;
#define stream_load(place)         _mm_loadu_si128((const stream_word *)(place))
#define stream_store(place, value) _mm_stream_si128((stream_word *)(place), value)
#endif

#if defined(stream_store)

/* Whole cache lines go past the caches, the ends of an unaligned target do not. */
static void stream(void *target, const void *source, uint64_t bytes)
{
    char *to = target;
    const char *from = source;
    uint64_t head = (64 - (uintptr_t)to % 64) % 64;
    if (head > bytes)
        head = bytes;
    memcpy(to, from, head);
    uint64_t end = head + (bytes - head) / 64 * 64;
    for (uint64_t i = head; i < end; i += sizeof(stream_word))
        stream_store(to + i, stream_load(from + i));
    memcpy(to + end, from + end, bytes - end);
}

#else

static void stream(void *target, const void *source, uint64_t bytes)
{
    memcpy(target, source, bytes);
}

#endif

/* ---- the table ---- */

#define ENTRY(NAME)                                                                                                    \
    {                                                                                                                  \
        NAME##_two, NAME##_three, NAME##_four, NAME##_eight                                                            \
    }
#define ENTRIES(SUMS, NAME)                                                                                            \
    {                                                                                                                  \
        [REDUCTION_SUM] = ENTRY(SUMS##_sum), [REDUCTION_PRODUCT] = ENTRY(SUMS##_product),                              \
        [REDUCTION_MIN] = ENTRY(NAME##_min), [REDUCTION_MAX] = ENTRY(NAME##_max)                                       \
    }
#define INTEGER_ENTRIES(BITS, TRUTHS, NAME)                                                                            \
    {                                                                                                                  \
        [REDUCTION_SUM] = ENTRY(BITS##_sum), [REDUCTION_PRODUCT] = ENTRY(BITS##_product),                              \
        [REDUCTION_MIN] = ENTRY(NAME##_min), [REDUCTION_MAX] = ENTRY(NAME##_max),                                      \
        [REDUCTION_BITWISE_AND] = ENTRY(BITS##_and), [REDUCTION_BITWISE_OR] = ENTRY(BITS##_or),                        \
        [REDUCTION_BITWISE_XOR] = ENTRY(BITS##_xor), [REDUCTION_LOGICAL_AND] = ENTRY(TRUTHS##_and),                    \
        [REDUCTION_LOGICAL_OR] = ENTRY(TRUTHS##_or), [REDUCTION_LOGICAL_XOR] = ENTRY(TRUTHS##_xor)                     \
    }

const struct reduction REDUCTION_TABLE = {
    .name = REDUCTION_NAME,
    .loops =
        {
            [WEFT_F32] = ENTRIES(f32, f32),
            [WEFT_F64] = ENTRIES(f64, f64),
            [WEFT_F16] = ENTRIES(f16, f16),
            [WEFT_BF16] = ENTRIES(bf16, bf16),
            [WEFT_I8] = INTEGER_ENTRIES(bits8, truth8, i8),
            [WEFT_U8] = INTEGER_ENTRIES(bits8, truth8, u8),
            [WEFT_I32] = INTEGER_ENTRIES(bits32, truth32, i32),
            [WEFT_U32] = INTEGER_ENTRIES(bits32, truth32, u32),
            [WEFT_I64] = INTEGER_ENTRIES(bits64, truth64, i64),
            [WEFT_U64] = INTEGER_ENTRIES(bits64, truth64, u64),
            [WEFT_BOOL] =
                {
                    [REDUCTION_MIN] = ENTRY(truth8_and),
                    [REDUCTION_MAX] = ENTRY(truth8_or),
                    [REDUCTION_BITWISE_AND] = ENTRY(truth8_and),
                    [REDUCTION_BITWISE_OR] = ENTRY(truth8_or),
                    [REDUCTION_BITWISE_XOR] = ENTRY(truth8_xor),
                    [REDUCTION_LOGICAL_AND] = ENTRY(truth8_and),
                    [REDUCTION_LOGICAL_OR] = ENTRY(truth8_or),
                    [REDUCTION_LOGICAL_XOR] = ENTRY(truth8_xor),
                },
        },
    .divide =
        {
            [WEFT_F32] = f32_divide,
            [WEFT_F64] = f64_divide,
            [WEFT_F16] = f16_divide,
            [WEFT_BF16] = bf16_divide,
            [WEFT_I8] = i8_divide,
            [WEFT_U8] = u8_divide,
            [WEFT_I32] = i32_divide,
            [WEFT_U32] = u32_divide,
            [WEFT_I64] = i64_divide,
            [WEFT_U64] = u64_divide,
        },
    .multiply =
        {
            [WEFT_F32] = f32_multiply,
            [WEFT_F64] = f64_multiply,
            [WEFT_F16] = f16_multiply,
            [WEFT_BF16] = bf16_multiply,
        },
    .truth =
        {
            [WEFT_I8] = truth8_values,
            [WEFT_U8] = truth8_values,
            [WEFT_I32] = truth32_values,
            [WEFT_U32] = truth32_values,
            [WEFT_I64] = truth64_values,
            [WEFT_U64] = truth64_values,
            [WEFT_BOOL] = truth8_values,
        },
    .stream = stream,
};
