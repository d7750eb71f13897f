/* SPDX-License-Identifier: Apache-2.0 */
/** A pseudo-random permutation of 0..count-1 that needs no memory: any place of it is computed alone. Thread-safe. */
#ifndef WEFT_TRAINING_DATA_INTERNAL_PERMUTATION_H
#define WEFT_TRAINING_DATA_INTERNAL_PERMUTATION_H

#include <stdint.h>

/**
 * Where `index` goes in the permutation of 0..count-1 that `key` chooses; index < count <= 2^62. A Feistel network on
 * the smallest even number of bits that hold `count`, walked until it falls inside (J. Black, P. Rogaway, "Ciphers with
 * arbitrary finite domains", CT-RSA 2002): fewer than four walks on average.
 */
uint64_t permutation_at(uint64_t key, uint64_t count, uint64_t index);

#endif
