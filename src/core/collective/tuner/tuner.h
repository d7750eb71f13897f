/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tuner: chooses the algorithm for each size on each communicator.
 *
 * It prices every candidate by simulating its schedule on the measured links (alpha and beta: latency and bandwidth
 * between ranks of a node, nodes of a leaf, leaves), and takes the cheapest. Candidates are the algorithms that support
 * the shape and keep the canonical order of sums; ring and double-tree sums are chosen only on the user's request. Rank
 * 0's numbers are distributed to all ranks when the context opens, so all ranks make the same choice, and a choice
 * never changes afterwards.
 */
#ifndef WEFT_CORE_COLLECTIVE_TUNER_TUNER_H
#define WEFT_CORE_COLLECTIVE_TUNER_TUNER_H

#include "base/error.h"
#include "core/schedule/simulate/simulate_price.h"
#include "core/topology/cluster_file.h"

#include <stdbool.h>

/** The tuner's data; fixed once the context is open. */
struct tuner {
    struct simulated_cluster cluster;
    uint32_t *units[SHAPE_LEVELS]; /**< units[0][r]: the leaf of world rank r; units[1][r]: its pod; in arbitrary
                                        numbering; NULL: unknown */
    char source[128];              /**< where the numbers come from, for people */
};
_Static_assert(SHAPE_LEVELS == CLUSTER_MAPS, "a cluster file describes every level of a shape");

/**
 * Measure or look up the links (rank 0 uses the cluster file `topology` unless it is NULL), distribute rank 0's
 * numbers, and set the world's leaves. Collective over the world, which is open.
 */
weft_status tuner_open(struct tuner *tuner, weft_context *context, const char *topology, struct error *error);
void tuner_close(struct tuner *tuner);

/** The world continues with `count` of its ranks, kept[0] < kept[1] < ...; their data is kept. */
void tuner_keep(struct tuner *tuner, const uint32_t *kept, uint32_t count);

/** The cheapest algorithm for `shape`. Errors: ARGUMENT when no algorithm supports it. */
weft_status tuner_choose(const weft_comm *comm, const struct schedule_shape *shape, const struct algorithm **algorithm,
                         struct algorithm_prices *prices, struct error *error);

/** Numbers of a typical machine and network, used where nothing was measured. */
struct simulated_cluster tuner_default_cluster(void);

/** The same, overridden by a cluster file. */
struct simulated_cluster tuner_cluster_of(const struct cluster_file *file);

/** Simulation parameters for a measured link between nodes, limited to plausible values. */
struct link_parameters tuner_far_parameters(const struct link_cost *cost);

/* ---- levels above the node (core/collective/tuner/levels.c), for tuner_open() ---- */

/** Rank 0's description of the cluster, and where it is stored. */
struct tuner_levels {
    struct cluster_file file;   /**< level_count 0: unknown */
    char path[FILE_PATH_BYTES]; /**< "": not stored */
    uint32_t *leaders;          /**< each node's lowest world rank */
    uint32_t nodes;
    bool measurable; /**< nodes may lie under leaves, and are few enough to be measured pair by pair; equal on all ranks
                      */
};

/**
 * Load the description: from the file `topology`, else from the one stored for exactly these hosts. Only rank 0 reads
 * it.
 */
weft_status tuner_levels_open(struct tuner_levels *levels, weft_context *context, const char *topology,
                              struct error *error);
void tuner_levels_close(struct tuner_levels *levels);

/**
 * Whether a measured link contradicts the stored description: rank 0 measures with its first peer on another node,
 * `peer`.
 */
bool tuner_levels_contradict(const struct tuner_levels *levels, const struct link_cost *measured);

/** The simplest cluster that fits one measured link: all nodes alike. Stores it. On rank 0. */
void tuner_levels_flat(struct tuner_levels *levels, weft_context *context, const struct simulated_cluster *cluster,
                       const struct link_cost *far);

/** Measure all pairs of nodes, infer the leaves, store the result in rank 0's `levels`. Collective over the world. */
weft_status tuner_levels_measure(struct tuner_levels *levels, weft_context *context,
                                 const struct simulated_cluster *cluster, struct error *error);

/** Distribute the units of the nodes from rank 0: tuner->units. Collective over the world. */
weft_status tuner_levels_distribute(const struct tuner_levels *levels, uint32_t maps, struct tuner *tuner,
                                    weft_context *context, struct error *error);

/**
 * Latency and overhead of a link between nodes: half a round trip of a tiny message, the best of `rounds`, and the time
 * that each of many in a row adds, which is how long it occupies its ends.
 */
weft_status tuner_tiny(weft_comm *world, void *buffer, int rounds, int peer, bool first, struct link_cost *cost);

/** Bytes per second each way, both ways at once, for `window` seconds; `buffers` holds two messages of `bytes`. */
weft_status tuner_exchange(weft_comm *world, char *buffers, size_t bytes, int peer, bool first, double window,
                           double *rate);

/** Reset operation numbers and log after measuring, which is not part of the user's program. All ranks call it. */
void tuner_forget(weft_context *context);

#endif
