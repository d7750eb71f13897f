/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Groups of a mesh by their placement, and the prices of their collectives.
 *
 * Prices belong to one thread.
 */
#ifndef WEFT_TRAINING_SIMULATE_STEP_PRICES_H
#define WEFT_TRAINING_SIMULATE_STEP_PRICES_H

#include "training/simulate/step_costs.h"

/** The placement of a group: its shape, numbered from 0, and a hash of it. */
struct step_placement {
    struct schedule_shape shape;
    uint64_t hash;
};

/** Those of the groups of an axis, one for each class. */
struct step_placements {
    struct step_placement *classes;
    uint32_t count;
};

/**
 * Number the groups of an axis, set costs->groups, group_class, group_count and class_count (costs->points is set), and
 * describe the placements of the classes; step_placements_free() frees them, also after an error. Errors: MEMORY.
 */
weft_status step_placements_open(struct step_costs *costs, enum mesh_axis axis, struct step_placements *placements,
                                 struct error *error);
void step_placements_free(struct step_placements *placements);

/** That of the first `ranks` ranks of the cluster, until the next call. Errors: MEMORY. */
weft_status step_prices_placement(struct step_prices *prices, uint32_t ranks, const struct step_placement **placement,
                                  struct error *error);

/** What is asked for a group. */
struct step_request {
    enum collective collective;
    double bytes;      /**< of the whole array: what is reduced, assembled, or sent by a rank to all others */
    bool reproducible; /**< only canonical sums */
};

/** The price of a collective of a group, added to *transfer. Errors: those of simulate_price(). */
weft_status step_prices_add(struct step_prices *prices, const struct step_placement *placement,
                            const struct step_request *request, struct step_transfer *transfer, struct error *error);

static inline uint32_t step_cluster_host(const struct step_cluster *cluster, uint32_t rank)
{
    return cluster->hosts ? cluster->hosts[rank] : 0;
}

/** The level at which two ranks differ: 0 on one host, 1 under one leaf, 2 in one pod, 3. */
uint32_t step_cluster_level(const struct step_cluster *cluster, uint32_t rank, uint32_t other);

/** The unit of `level` that a rank is in: itself, its host, leaf, pod. 0 where the cluster has no such level. */
uint32_t step_cluster_unit(const struct step_cluster *cluster, uint32_t rank, uint32_t level);

/** A message of `bytes` between two ranks that differ at `level`. */
struct step_transfer step_message_of(const struct step_cluster *cluster, uint32_t level, double bytes);

#endif
