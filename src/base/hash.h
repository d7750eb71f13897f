/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fast 64-bit hashes (XXH3, by xxhash): to compare schedules, calls and configurations between ranks. The value for
 * given bytes and seed is the same on every machine and in every version of xxhash from 0.8 on. Not for secrets.
 * Thread-safe.
 */
#ifndef WEFT_BASE_HASH_H
#define WEFT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

/**
 * The hash of `size` bytes. To hash several pieces, pass the hash of the previous ones as `seed`, and 0 for the first.
 */
static inline uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, size, seed);
}

/** The hash of a string, its length included, so that ("ab", "c") and ("a", "bc") differ. */
static inline uint64_t hash_text(const char *text, uint64_t seed)
{
    return hash_bytes(text, strlen(text) + 1, seed);
}

/** The hash of a number. */
static inline uint64_t hash_number(uint64_t number, uint64_t seed)
{
    return hash_bytes(&number, sizeof number, seed);
}

#endif
