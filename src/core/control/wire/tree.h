/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The shape of the control plane: the lowest rank of each node leads it. The ranks of a node form a binary tree below
 * their leader, and the leaders form one in order of their nodes' first appearance, with rank 0 as its root. It depends
 * on the endpoint info alone, so it is the same on all ranks.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_TREE_H
#define WEFT_CORE_CONTROL_WIRE_TREE_H

#include "base/error.h"
#include "core/control/wire/endpoint_info.h"

#include <stdint.h>

#define TREE_NONE  UINT32_MAX
#define TREE_ARITY 2

/**
 * Places 0, 1, 2 ... in a tree where each has TREE_ARITY children: the shape for the ranks of a node, and for leaders.
 */
static inline uint32_t tree_place_parent(uint32_t place)
{
    return place == 0 ? TREE_NONE : (place - 1) / TREE_ARITY;
}
static inline uint32_t tree_place_child(uint32_t place, uint32_t index)
{
    return TREE_ARITY * place + 1 + index;
}

/** The number of `count` places in the subtree of `place`, itself included. */
uint32_t tree_places_below(uint32_t place, uint32_t count);

struct tree {
    uint32_t parent;    /**< rank, or TREE_NONE at the root */
    uint32_t *children; /**< ranks */
    uint32_t count;     /**< of children */
    uint32_t below;     /**< ranks in the subtree, itself included */
    uint32_t *toward;   /**< for each rank, the neighbor on the way to it; this rank itself for itself */
};

/** The neighbors of `rank` in the tree over `endpoints`; tree_free() frees it. */
weft_status tree_build(const struct endpoint_info *endpoints, uint32_t ranks, uint32_t rank, struct tree *tree,
                       struct error *error);
void tree_free(struct tree *tree);

#endif
