/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The cluster as the planner sees it: nodes alike, ranks on each, links between them, and how fast one rank computes.
 *
 * Numbers come from measurements where there are any, and each says where it comes from. Thread-safe.
 */
#ifndef WEFT_PLAN_CLUSTER_H
#define WEFT_PLAN_CLUSTER_H

#include "schedule/simulate.h"
#include "topology/links.h"
#include "topology/machine.h"

struct cluster {
    uint32_t nodes;
    uint32_t ranks_per_node; /**< most ranks that a node may get */
    struct simulated_cluster links;
    uint64_t node_memory;                 /**< bytes that the ranks of one node may use together */
    const char *near_origin, *far_origin; /**< "measured" or "assumed"; static strings */
};

/** `nodes` nodes like `machine`, with what `links` knows of its links (assumed values for the rest). */
void cluster_describe(const struct machine *machine, const struct links *links, uint32_t nodes, uint32_t ranks_per_node,
                      struct cluster *cluster);

/**
 * Seconds that an all-reduce of `bytes` takes on the first `ranks` ranks of `cluster` (filled node by node): the
 * fastest of the canonical algorithms, whose name goes to *algorithm (a static string). 0 and "none" for one rank.
 */
weft_status cluster_price_allreduce(const struct cluster *cluster, uint32_t ranks, uint64_t bytes, double *seconds,
                                    const char **algorithm, struct error *error);

#endif
