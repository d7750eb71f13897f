/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which elements dropout drops (Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
 * overfitting"): a function of the seed, the sample's number within the run, the layer's number, the position and the
 * column. So the mask is the same on any rank, thread or micro-batch, and a backward pass recomputes it.
 *
 * The numbers are those of Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2,
 * 3"), a block cipher of a counter: 128 bits for each counter, 16 bits per element. So the dropped share is the multiple
 * of 2^-16 that is nearest to the requested one, and the remaining elements are divided by exactly one minus it.
 *
 * The columns of a row are taken 128 at a time: of these, columns c, c + 16, ... c + 112 (c below 16) are the eight
 * numbers of one counter, low halves of a word first. In this order registers of any width up to 16 need no shuffling.
 */
#ifndef WEFT_TRAINING_TENSOR_DROPOUT_H
#define WEFT_TRAINING_TENSOR_DROPOUT_H

#include "training/tensor/device.h"

#define DROPOUT_CHUNK    128 /* columns computed together */
#define DROPOUT_COUNTERS 16  /* for them */
#define DROPOUT_NUMBERS  8   /* of a counter */

#define PHILOX_ROUNDS      10
#define PHILOX_MULTIPLIER0 0xd2511f53u
#define PHILOX_MULTIPLIER1 0xcd9e8d57u
#define PHILOX_STEP0       0x9e3779b9u /* of the key from round to round */
#define PHILOX_STEP1       0xbb67ae85u

/** `counter` becomes four random words. */
static inline void philox(uint32_t key0, uint32_t key1, uint32_t counter[4])
{
    for (int round = 0; round < PHILOX_ROUNDS; round++, key0 += PHILOX_STEP0, key1 += PHILOX_STEP1) {
        const uint64_t product0 = (uint64_t)PHILOX_MULTIPLIER0 * counter[0];
        const uint64_t product1 = (uint64_t)PHILOX_MULTIPLIER1 * counter[2];
        counter[0] = (uint32_t)(product1 >> 32) ^ counter[1] ^ key0;
        counter[1] = (uint32_t)product1;
        counter[2] = (uint32_t)(product0 >> 32) ^ counter[3] ^ key1;
        counter[3] = (uint32_t)product0;
    }
}

/** Numbers below this, out of 65536, drop an element. */
static inline uint32_t dropout_threshold(const struct dropout *dropout)
{
    const uint32_t threshold = (uint32_t)(dropout->share * 65536 + 0.5);
    return threshold < 65536 ? threshold : 65535;
}

/** The factor of the elements that are kept. */
static inline double dropout_factor(const struct dropout *dropout)
{
    return 65536.0 / (65536.0 - dropout_threshold(dropout));
}

/** The first two words of a row's counters: its sample. */
static inline uint64_t dropout_sample(const struct dropout *dropout, size_t row)
{
    return dropout->sample + (dropout->first + row) / dropout->sequence;
}

/** The third: its position. */
static inline uint32_t dropout_position(const struct dropout *dropout, size_t row)
{
    return (uint32_t)((dropout->first + row) % dropout->sequence);
}

/** The fourth: the layer, and which of the row's counters it is. */
static inline uint32_t dropout_place(const struct dropout *dropout, size_t number)
{
    return (uint32_t)dropout->layer << 16 | (uint32_t)number;
}

/** Whether the element at this row and column is kept. */
static inline bool dropout_keeps(const struct dropout *dropout, size_t row, size_t column)
{
    const size_t within = column % DROPOUT_CHUNK, number = within / DROPOUT_COUNTERS;
    const uint64_t sample = dropout_sample(dropout, row);
    uint32_t words[4] = {(uint32_t)sample, (uint32_t)(sample >> 32), dropout_position(dropout, row),
                         dropout_place(dropout, column / DROPOUT_CHUNK * DROPOUT_COUNTERS + within % DROPOUT_COUNTERS)};
    philox((uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32), words);
    return (words[number / 2] >> (number % 2 * 16) & 0xffff) >= dropout_threshold(dropout);
}

#endif
