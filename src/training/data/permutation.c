/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/internal/permutation.h"
#include "base/random.h"

/* Four rounds already make a pseudo-random permutation of large halves (Luby and Rackoff 1988); halves of few bits want
 * more. */
#define ROUNDS 8

/* A permutation of the numbers of 2 x `half` bits. */
static uint64_t feistel(uint64_t key, unsigned half, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t mixed = left ^ (random_bits(key + round, right) & mask);
        left = right;
        right = mixed;
    }
    return left << half | right;
}

uint64_t permutation_at(uint64_t key, uint64_t count, uint64_t index)
{
    unsigned half = 1;
    while (((uint64_t)1 << 2 * half) < count)
        half++;
    /* At most every fourth number is inside, and the walk from an inside number comes back inside: it is a cycle. */
    uint64_t value = index;
    do
        value = feistel(key, half, value);
    while (value >= count);
    return value;
}
