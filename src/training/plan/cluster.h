/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The cluster as the planner sees it: nodes alike, ranks on each, links between them, and how fast one rank computes.
 *
 * Numbers come from measurements where there are any, and each says where it comes from. Thread-safe.
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
    uint64_t node_memory;                 /**< bytes that the ranks of one node may use together */
    const char *near_origin, *far_origin; /**< "measured", "assumed" or "described"; static strings */
    const struct cluster_file *file;      /**< the description it is made from, borrowed; NULL: none */
};

/** Where ranks lie: the maps of a schedule_shape. */
struct cluster_map {
    uint32_t *nodes, *above[SHAPE_LEVELS];
    uint32_t node_count;
};

/**
 * Put `ranks` ranks on nodes and these under the leaves of `file` (NULL: there are none), in order. `nodes`: on so
 * many, in runs of (nearly) equal length; 0: on as few as the file's nodes take. cluster_map_free() frees the maps.
 * Errors: ARGUMENT when the ranks do not fit.
 */
weft_status cluster_map_ranks(const struct cluster_file *file, uint32_t ranks, uint32_t nodes, struct cluster_map *map,
                              struct error *error);
void cluster_map_free(struct cluster_map *map);

/** The cluster that `file` describes (it is borrowed), each node with the memory of `machine`. Errors: ARGUMENT when
 * the file does not say how large it is. */
weft_status cluster_describe_file(const struct cluster_file *file, const struct machine *machine,
                                  struct cluster *cluster, struct error *error);

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
