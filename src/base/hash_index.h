/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A hash table: what was computed once, by the hash of what it depends on (base/hash.h).
 *
 * Keys are hashes of 64 bits; two that are equal are taken for the same thing. Nothing is ever removed. Belongs to one
 * thread.
 */
#ifndef WEFT_BASE_HASH_INDEX_H
#define WEFT_BASE_HASH_INDEX_H

#include "base/error.h"

#include <stdint.h>

struct hash_index_item {
    uint64_t key; /**< 0: none */
    void *value;
};

/** Zeroed: empty. */
struct hash_index {
    struct hash_index_item *items; /**< [room] */
    size_t count, room;            /**< a power of two */
};

/** The value of a key, or NULL. */
void *hash_index_find(const struct hash_index *index, uint64_t key);

/** Add a value, not NULL, whose key is not there yet. Errors: MEMORY; the value is then the caller's. */
weft_status hash_index_add(struct hash_index *index, uint64_t key, void *value, struct error *error);

/** Free the table and, with `release`, each value. The table is empty then. */
void hash_index_free(struct hash_index *index, void (*release)(void *value));

#endif
