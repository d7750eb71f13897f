/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Counter-based random numbers: value n of stream `seed` is a function of (seed, n) alone, so that any rank can make
 * any part of a sequence. SplitMix64: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014. Not for secrets: those come from the operating system. Thread-safe.
 */
#ifndef WEFT_BASE_RANDOM_H
#define WEFT_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

/** 64 random bits: number `index` of stream `seed`. */
static inline uint64_t random_bits(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/** Uniform in [0, 1). */
static inline double random_uniform(uint64_t seed, uint64_t index)
{
    return (double)(random_bits(seed, index) >> 11) * 0x1p-53;
}

/** Uniform in [0, bound), bound > 0; the bias is below bound / 2^64. */
static inline uint64_t random_below(uint64_t seed, uint64_t index, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_bits(seed, index) * bound) >> 64);
}

/** Standard normal (Box and Muller 1958), numbers 2 x index and 2 x index + 1 of the stream. */
static inline double random_normal(uint64_t seed, uint64_t index)
{
    double u = 1.0 - random_uniform(seed, 2 * index), v = random_uniform(seed, 2 * index + 1);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

/** Exponentially distributed with mean 1. */
static inline double random_exponential(uint64_t seed, uint64_t index)
{
    return -log1p(-random_uniform(seed, index));
}

#endif
