/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Folding: where all nodes do the same, one node is simulated for all.
 *
 * A node's place is its coordinates: its number under its leaf, its leaf's in its pod, its pod's. A symmetry of the
 * cluster exchanges places: it adds a constant to every coordinate (modulo how many there are), or combines the places
 * with a constant by exclusive or. If every rank's steps are those of the first node's rank of the same number, with
 * each peer exchanged by the symmetry that takes the first node to the rank's, then all nodes are in the same state at
 * all times: a message that the first node sends to the node at a distance d is, seen from there, the message that the
 * first node gets from the distance -d. Each link of the first node carries what the same link of any node does.
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_FOLD_H
#define WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_FOLD_H

#include "core/schedule/simulate/simulate.h"

enum fold_kind { FOLD_ROTATION, FOLD_EXCLUSIVE_OR };

struct simulated_fold {
    enum fold_kind kind;
    uint32_t ranks, nodes;            /**< ranks of a node; nodes */
    uint32_t radix[SHAPE_LEVELS + 1]; /**< nodes of a leaf, leaves of a pod, pods */
    uint32_t *class_of;               /**< by rank: its number among those of its node */
    uint32_t *place_of;               /**< by rank: its node's place */
    uint32_t *rank_at;                /**< by place x ranks + class */
    uint32_t *rotated;                /**< by place: scratch memory */
    struct schedule **schedules;      /**< of the ranks of the first node */
};

/**
 * Whether `algorithm` on `shape` can be folded, and if so *fold, to be closed with fold_close(); among more steps than
 * can be looked at a sample of nodes is compared. Where it cannot, *fold is empty (nodes 0). Errors: MEMORY, and those
 * of schedule_generate().
 */
weft_status fold_open(struct simulated_fold *fold, const struct algorithm *algorithm,
                      const struct schedule_shape *shape, const struct simulated_cluster *cluster, struct error *error);
void fold_close(struct simulated_fold *fold);

/** The symmetry that takes one place to another. */
uint32_t fold_difference(const struct simulated_fold *fold, uint32_t from_place, uint32_t to_place);

#endif
