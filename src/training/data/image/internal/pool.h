/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Threads that make groups of samples ahead of the reader, and slots that hold what they made.
 *
 * A group is one sample, or two that are mixed with each other. The reader calls image_pool_expect() with the groups it will
 * take, in that order, and image_pool_take() for each. Those that no thread has begun are made by the reader. What is
 * in a group does not depend on who makes it, or when. One thread at a time is the reader.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_INTERNAL_POOL_H
#define WEFT_TRAINING_DATA_IMAGE_INTERNAL_POOL_H

#include "training/data/image/internal/maker.h"

#define IMAGE_GROUP_MOST 2u

/** A group that has been made. */
struct image_group {
    float *pixels; /**< of all its samples */
    int32_t targets[IMAGE_GROUP_MOST][2];
    float shares[IMAGE_GROUP_MOST][2];
    uint64_t skipped; /**< images that were replaced */
};

/** Makes group `number` of a split. Called by several threads, each with a maker of its own. */
struct image_group_maker {
    weft_status (*make)(const void *context, struct image_maker *maker, enum dataset_split split, uint64_t number,
                        struct image_group *group, struct error *error);
    const void *context;
};

struct image_pool;

/**
 * Start `threads` threads. A group has `floats` numbers of pixels; at most `memory` bytes of groups are held. Errors:
 * MEMORY; SYSTEM.
 */
weft_status image_pool_open(const struct image_group_maker *maker, uint32_t threads, size_t floats, uint64_t memory,
                            struct image_pool **pool, struct error *error);

/** Stop the threads. NULL is allowed. */
void image_pool_close(struct image_pool *pool);

/** A read begins, of so many groups: what earlier reads expected may make room for what this one does. */
void image_pool_begin(struct image_pool *pool, uint64_t groups);

/** Have groups made, as far as there is room. Without threads it does nothing. */
void image_pool_expect(struct image_pool *pool, enum dataset_split split, uint64_t first, uint64_t groups);

/** A group, valid until image_pool_release(). Errors: those of making it; MEMORY. */
weft_status image_pool_take(struct image_pool *pool, enum dataset_split split, uint64_t number,
                            const struct image_group **group, struct error *error);

/** Give the group last taken back. It is kept where it may be taken `again`, until its place is needed. */
void image_pool_release(struct image_pool *pool, bool again);

#endif
