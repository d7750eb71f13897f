/* SPDX-License-Identifier: Apache-2.0 */
/** What a planner has computed once, by the hash of what it depends on. */
#ifndef WEFT_TRAINING_PLAN_INTERNAL_PLANNER_INDEX_H
#define WEFT_TRAINING_PLAN_INTERNAL_PLANNER_INDEX_H

#include "base/error.h"

#include <stdint.h>

struct planner_index_item {
    uint64_t key; /**< 0: none */
    void *value;
};

/** A hash table. Zeroed: empty. Keys are hashes of 64 bits; two that are equal are taken for the same thing. */
struct planner_index {
    struct planner_index_item *items; /**< [room] */
    size_t count, room;               /**< a power of two */
};

/** The value of a key, or NULL. */
void *planner_index_find(const struct planner_index *index, uint64_t key);

/** Errors: MEMORY; the value is then the caller's. */
weft_status planner_index_add(struct planner_index *index, uint64_t key, void *value, struct error *error);

/** Free the table and, with `release`, each value. */
void planner_index_free(struct planner_index *index, void (*release)(void *value));

#endif
