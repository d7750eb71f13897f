/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The shape of the control plane: each node's lowest rank leads it; its ranks form a binary tree below
 * it, and the leaders one in order of their nodes' first appearance, rank 0 at its root. A function of the endpoint infos alone,
 * the same everywhere.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_TREE_H
#define WEFT_CORE_CONTROL_WIRE_TREE_H

#include "base/error.h"
#include "core/control/wire/endpoint_info.h"

#include <stdint.h>

#define TREE_NONE  UINT32_MAX
#define TREE_ARITY 2

/** Places 0, 1, 2 ... of which each has TREE_ARITY below it: the shape in which ranks of a node, and leaders, stand. */
static inline uint32_t tree_place_parent(uint32_t place)
{
    return place == 0 ? TREE_NONE : (place - 1) / TREE_ARITY;
}
static inline uint32_t tree_place_child(uint32_t place, uint32_t index)
{
    return TREE_ARITY * place + 1 + index;
}

/** How many of `count` places are below and including `place`. */
uint32_t tree_places_below(uint32_t place, uint32_t count);

struct tree {
    uint32_t parent;    /**< rank, or TREE_NONE at the root */
    uint32_t *children; /**< ranks */
    uint32_t count;     /**< of children */
    uint32_t below;     /**< ranks of the subtree, this one included */
    uint32_t *toward;   /**< for each rank, the neighbor that leads to it; this rank itself for itself */
};

/** The neighbors of `rank` in the tree over `endpoints`; tree_free() frees it. */
weft_status tree_build(const struct endpoint_info *endpoints, uint32_t ranks, uint32_t rank, struct tree *tree,
                       struct error *error);
void tree_free(struct tree *tree);

#endif
