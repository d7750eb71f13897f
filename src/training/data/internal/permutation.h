/* SPDX-License-Identifier: Apache-2.0 */
/** A pseudo-random permutation of 0..count-1 that needs no memory: each position is computed independently.
 * Thread-safe. */
#ifndef WEFT_TRAINING_DATA_INTERNAL_PERMUTATION_H
#define WEFT_TRAINING_DATA_INTERNAL_PERMUTATION_H

#include "base/random.h"

#include <stdint.h>

/* Four rounds make a pseudo-random permutation of large halves (Luby and Rackoff 1988); halves of few bits need more. */
#define PERMUTATION_ROUNDS 8

/** A permutation of the numbers of 2 x `half` bits. */
static inline uint64_t permutation_feistel(uint64_t key, unsigned half, uint64_t value)
{
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < PERMUTATION_ROUNDS; round++) {
        uint64_t mixed = left ^ (random_bits(key + round, right) & mask);
        left = right;
        right = mixed;
    }
    return left << half | right;
}

/**
 * Where `index` goes in the permutation of 0..count-1 that `key` chooses; index < count <= 2^62. A Feistel network on
 * the smallest even number of bits that hold `count`, applied until the result is below `count` (J. Black, P. Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002): fewer than four times on average.
 */
static inline uint64_t permutation_at(uint64_t key, uint64_t count, uint64_t index)
{
    unsigned half = 1;
    while (((uint64_t)1 << 2 * half) < count)
        half++;
    /* At least every fourth number is below `count`, and the cycle of one that is comes back to such a number. */
    uint64_t value = index;
    do
        value = permutation_feistel(key, half, value);
    while (value >= count);
    return value;
}

#endif
