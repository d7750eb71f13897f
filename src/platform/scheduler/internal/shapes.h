/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A set of gang shapes that did not fit in a pass, to save time. A shape that is not in the set has not been tried, or
 * could not be added for lack of memory: "not in the set" does not mean "fits".
 *
 * A zeroed struct is an empty set. Not thread-safe.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_SHAPES_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_SHAPES_H

#include "platform/scheduler/internal/pool.h"

struct shapes {
    struct gang *cells; /**< a hash table with open addressing; an empty cell has 0 nodes */
    uint32_t room;      /**< cells: a power of two, at least twice `count` */
    uint32_t count;
};

bool shapes_have(const struct shapes *shapes, struct gang gang);

/** Add a shape with at least one node. Without memory for it, the set stays as it is. */
void shapes_add(struct shapes *shapes, struct gang gang);

/** Empty the set, and keep its memory. */
void shapes_clear(struct shapes *shapes);
void shapes_free(struct shapes *shapes);

#endif
