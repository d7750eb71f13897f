/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The shape of a collective, as generators see it: its ranks and their places.
 *
 * Ranks are on nodes, nodes under leaves, leaves in pods: the units of each level are members of units of the next.
 * Ranks within a unit are close, ranks in different units far apart, so the higher the level, the fewer bytes should
 * cross between its units. A shape is a view: the maps belong to its creator. Thread-safe.
 */
#ifndef WEFT_CORE_SCHEDULE_FORMAT_SHAPE_H
#define WEFT_CORE_SCHEDULE_FORMAT_SHAPE_H

#include "core/schedule/format/schedule.h"

/** Levels above nodes that a shape can describe: leaves and pods. */
#define SHAPE_LEVELS 2

struct schedule_shape {
    enum collective collective;
    uint32_t ranks;
    uint32_t root; /**< of rooted collectives, the sender of a message (sendreceive); 0 otherwise */
    uint32_t peer; /**< the receiver of a message (sendreceive), another rank than root; 0 otherwise */
    const uint32_t
        *nodes; /**< nodes[r]: the node of rank r, numbered from 0 in order of first appearance; NULL: all on one
                     node */
    const uint32_t *above[SHAPE_LEVELS]; /**< above[0][n]: the leaf of node n; above[1][l]: the pod of leaf l;
                                              numbered                                             as nodes are. NULL
                                              (then all further ones, too): no such level, the units below are all
                                              equally far apart. Only with nodes */
    bool reproducible;                   /**< only canonical schedules */
    bool in_place; /**< alltoall: this rank's INPUT is its OUTPUT. Local to a rank, not in the hash; ignored by other
                        collectives */
    uint64_t block_bytes; /**< the size to schedule for (segment sizes, inline or not), a block's; agreed: derived
                               from                              count x type, in v-forms from agreed counts or 0.
                               The schedule serves blocks of other sizes too
                               (schedule.most_block_bytes) */
};

/** The node of a rank. */
static inline uint32_t shape_node(const struct schedule_shape *shape, uint32_t rank)
{
    return shape->nodes ? shape->nodes[rank] : 0;
}

/** The number of levels in the shape: 0 when all ranks are on one node, 1 with nodes, 2 with leaves, 3 with pods. */
uint32_t shape_levels(const struct schedule_shape *shape);

/** The unit of a level (0: node, 1: leaf, 2: pod) that contains a rank. */
uint32_t shape_unit(const struct schedule_shape *shape, uint32_t level, uint32_t rank);

/** The number of units of a level. */
uint32_t shape_units(const struct schedule_shape *shape, uint32_t level);

#endif
