/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The cluster as the planner models it: identical nodes, ranks on each, links between them, and the speed of one rank.
 *
 * Numbers are measured where possible, and each has its source. Thread-safe.
 */
#ifndef WEFT_TRAINING_PLAN_CLUSTER_H
#define WEFT_TRAINING_PLAN_CLUSTER_H

#include "core/schedule/simulate/simulate.h"
#include "core/topology/cluster_file.h"
#include "core/topology/links.h"
#include "core/topology/machine.h"

struct cluster {
    uint32_t nodes;
    uint32_t ranks_per_node; /**< most ranks that a node may get */
    struct simulated_cluster links;
    uint64_t node_memory;            /**< bytes that the ranks of one node may use together */
    const struct cluster_file *file; /**< the description it is made from, borrowed; NULL: none */
};

/** The placement of ranks: the maps of a schedule_shape. */
struct cluster_map {
    uint32_t *nodes, *above[SHAPE_LEVELS];
    uint32_t node_count;
};

/**
 * Put `ranks` ranks on nodes and these under the leaves of `file` (NULL: there are none), in order. `nodes`: use that
 * many nodes, with (nearly) equally many consecutive ranks each; 0: as few of the file's nodes as possible.
 * cluster_map_free() frees the maps. Errors: ARGUMENT when the ranks do not fit.
 */
weft_status cluster_map_ranks(const struct cluster_file *file, uint32_t ranks, uint32_t nodes, struct cluster_map *map,
                              struct error *error);
void cluster_map_free(struct cluster_map *map);

/**
 * The cluster that `file` describes (it is borrowed). A node has the memory of its devices or, if the file describes
 * none, that of `machine`. Errors: ARGUMENT if the file does not give the cluster's size.
 */
weft_status cluster_describe_file(const struct cluster_file *file, const struct machine *machine,
                                  struct cluster *cluster, struct error *error);

/** `nodes` nodes like `machine`, with the measured links of `links` and assumed values for the rest. */
void cluster_describe(const struct machine *machine, const struct links *links, uint32_t nodes, uint32_t ranks_per_node,
                      struct cluster *cluster);

#endif
