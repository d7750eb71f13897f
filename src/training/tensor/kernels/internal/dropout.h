/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout: the masks of training/tensor/dropout.h, a register of counters at a time, and the passes over rows that
 * apply them. A chunk of a row is done in parts of LANES counters, each of which decides about DROPOUT_NUMBERS
 * registers.
 */
#include "training/tensor/dropout.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef uint32_t vector_words __attribute__((vector_size(LANES * sizeof(uint32_t))));

VECTOR_FUNCTION vector_words words_of(uint32_t value)
{
    return (vector_words){0} + value;
}

/* The upper and lower halves of the products of each lane with `factor`: even and odd lanes are multiplied separately,
 * as in the processors' instructions. */
VECTOR_FUNCTION void words_multiply(vector_words x, uint32_t factor, vector_words *upper, vector_words *lower)
{
#if defined(__AVX512F__)
    const __m512i f = _mm512_set1_epi32((int)factor);
    __m512i even = _mm512_mul_epu32((__m512i)x, f), odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), f);
    *upper = (vector_words)_mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
    *lower = (vector_words)_mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
#elif defined(__AVX2__)
    const __m256i f = _mm256_set1_epi32((int)factor);
    __m256i even = _mm256_mul_epu32((__m256i)x, f), odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), f);
    *upper = (vector_words)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *lower = (vector_words)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
#elif defined(__SSE2__)
    const __m128i f = _mm_set1_epi32((int)factor);
    const __m128i low = _mm_set_epi32(0, -1, 0, -1);
    __m128i even = _mm_mul_epu32((__m128i)x, f), odd = _mm_mul_epu32(_mm_srli_epi64((__m128i)x, 32), f);
    *upper = (vector_words)_mm_or_si128(_mm_srli_epi64(even, 32), _mm_andnot_si128(low, odd));
    *lower = (vector_words)_mm_or_si128(_mm_and_si128(low, even), _mm_slli_epi64(odd, 32));
#else
    for (size_t i = 0; i < LANES; i++) {
        uint64_t product = (uint64_t)x[i] * factor;
        (*upper)[i] = (uint32_t)(product >> 32);
        (*lower)[i] = (uint32_t)product;
    }
#endif
}

/* The inputs of one row's masks. */
struct masks {
    vector_words sample0, sample1, position;
    uint32_t key0, key1, place;
    vector_bits threshold;
};

VECTOR_FUNCTION struct masks masks_of_row(const struct dropout *dropout, size_t row)
{
    const uint64_t sample = dropout_sample(dropout, row);
    return (struct masks){.sample0 = words_of((uint32_t)sample),
                          .sample1 = words_of((uint32_t)(sample >> 32)),
                          .position = words_of(dropout_position(dropout, row)),
                          .key0 = (uint32_t)dropout->seed,
                          .key1 = (uint32_t)(dropout->seed >> 32),
                          .place = dropout_place(dropout, 0),
                          .threshold = (vector_bits){0} + (int32_t)dropout_threshold(dropout)};
}

/* The masks that counters `first` to first + LANES - 1 of a row make: all bits set where an element stays. */
VECTOR_FUNCTION void masks_make(const struct masks *masks, size_t first, vector_bits kept[DROPOUT_NUMBERS])
{
#if LANES == 16
    const vector_words lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif LANES == 8
    const vector_words lane = {0, 1, 2, 3, 4, 5, 6, 7};
#else
    const vector_words lane = {0, 1, 2, 3};
#endif
    vector_words word[4] = {masks->sample0, masks->sample1, masks->position, lane + (masks->place | (uint32_t)first)};
    uint32_t key0 = masks->key0, key1 = masks->key1;
    for (int round = 0; round < PHILOX_ROUNDS; round++, key0 += PHILOX_STEP0, key1 += PHILOX_STEP1) {
        vector_words upper0, lower0, upper1, lower1;
        words_multiply(word[0], PHILOX_MULTIPLIER0, &upper0, &lower0);
        words_multiply(word[2], PHILOX_MULTIPLIER1, &upper1, &lower1);
        word[0] = upper1 ^ word[1] ^ words_of(key0);
        word[1] = lower1;
        word[2] = upper0 ^ word[3] ^ words_of(key1);
        word[3] = lower0;
    }
    for (size_t i = 0; i < DROPOUT_NUMBERS; i++)
        kept[i] = (vector_bits)(word[i / 2] >> (uint32_t)(i % 2 * 16) & 0xffff) >= masks->threshold;
}

/* The new value of one element of a row. */
enum dropout_into {
    DROPOUT_IN_PLACE, /* y = x */
    DROPOUT_NARROWED, /* out [a] = x */
    DROPOUT_ADDED,    /* y = x + branch [a] */
};

VECTOR_FUNCTION void dropout_row(enum dropout_into into, const struct masks *masks, vector factor, size_t width,
                                 const float *x, const activation *branch, float *y, activation *out)
{
    for (size_t first = 0; first < width; first += DROPOUT_CHUNK)
        for (size_t part = 0; part < DROPOUT_COUNTERS && first + part < width; part += LANES) {
            vector_bits kept[DROPOUT_NUMBERS];
            masks_make(masks, first / DROPOUT_CHUNK * DROPOUT_COUNTERS + part, kept);
            for (size_t i = 0; i < DROPOUT_NUMBERS; i++) {
                const size_t j = first + part + i * DROPOUT_COUNTERS;
                if (j >= width)
                    break;
                const size_t rest = width - j;
                vector value = into == DROPOUT_ADDED ? activation_load_part(branch + j, rest, 0)
                                                     : vector_load_part(x + j, rest, 0);
                value = (vector)((vector_bits)(value * factor) & kept[i]);
                if (into == DROPOUT_NARROWED)
                    activation_store_part(out + j, value, rest);
                else if (into == DROPOUT_ADDED)
                    vector_store_part(y + j, vector_load_part(x + j, rest, 0) + value, rest);
                else
                    vector_store_part(y + j, value, rest);
            }
        }
}

static void dropout_in_place(const struct dropout *dropout, size_t first, size_t rows, size_t width, float *x)
{
    const vector factor = vector_of((float)dropout_factor(dropout));
    for (size_t i = 0; i < rows; i++, x += width) {
        const struct masks masks = masks_of_row(dropout, first + i);
        dropout_row(DROPOUT_IN_PLACE, &masks, factor, width, x, NULL, x, NULL);
    }
}

static void dropout_to_activations(const struct dropout *dropout, size_t first, size_t rows, size_t width,
                                   const float *x, void *out_)
{
    const vector factor = vector_of((float)dropout_factor(dropout));
    activation *out = out_;
    for (size_t i = 0; i < rows; i++, x += width, out += width) {
        const struct masks masks = masks_of_row(dropout, first + i);
        dropout_row(DROPOUT_NARROWED, &masks, factor, width, x, NULL, NULL, out);
    }
}

static void dropout_add_branch(const struct dropout *dropout, size_t first, size_t rows, size_t width, const float *x,
                               const void *branch_, float *y)
{
    const vector factor = vector_of((float)dropout_factor(dropout));
    const activation *branch = branch_;
    for (size_t i = 0; i < rows; i++, x += width, branch += width, y += width) {
        const struct masks masks = masks_of_row(dropout, first + i);
        dropout_row(DROPOUT_ADDED, &masks, factor, width, x, branch, y, NULL);
    }
}
