/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tuner: which algorithm serves which size on which communicator.
 *
 * It prices every candidate by simulating its schedule on the links as they were measured (alpha and beta: latency and
 * bandwidth between ranks of a node, nodes of a leaf, leaves), and takes the cheapest. Candidates are the algorithms
 * that serve the shape and keep the canonical order of sums; ring and double-tree sums are only ever a user's choice.
 * Rank 0's numbers are given to all when the context is opened, so all ranks choose alike, and a choice never changes
 * afterwards.
 */
#ifndef WEFT_CORE_COLLECTIVE_TUNER_TUNER_H
#define WEFT_CORE_COLLECTIVE_TUNER_TUNER_H

#include "base/error.h"
#include "core/schedule/generators/generate.h"
#include "core/schedule/simulate/simulate.h"
#include "core/topology/cluster_file.h"

#include <stdbool.h>

/** What the tuner knows; fixed once the context is open. */
struct tuner {
    struct simulated_cluster cluster;
    uint32_t *units[SHAPE_LEVELS]; /**< units[0][r]: the leaf of world rank r; units[1][r]: its pod; numbers without
                                      order; NULL: nothing is known of such units */
    char source[128];              /**< where the numbers come from, for people */
};
_Static_assert(SHAPE_LEVELS == CLUSTER_MAPS, "a cluster file says all that a shape can tell");

/** A candidate and what it would cost. */
struct tuner_price {
    const struct algorithm *algorithm;
    const char *refusal; /**< why it is no candidate, or NULL */
    double seconds;      /**< predicted, when it is one */
};

#define TUNER_PRICES 32

/** Prices of all algorithms of a collective. */
struct tuner_prices {
    struct tuner_price prices[TUNER_PRICES];
    size_t count;
    size_t chosen;      /**< its number in `prices` */
    const char *reason; /**< a clause for people; static */
};

/**
 * Measure or look up the links (rank 0 believes the cluster file `topology`, unless it is NULL), agree on rank 0's
 * numbers, and tell the world of its leaves. Collective over the world, which is open.
 */
weft_status tuner_open(struct tuner *tuner, weft_context *context, const char *topology, struct error *error);
void tuner_close(struct tuner *tuner);

/** The world goes on with `count` of its ranks, kept[0] < kept[1] < ...: what is known of them stays. */
void tuner_keep(struct tuner *tuner, const uint32_t *kept, uint32_t count);

/** The cheapest algorithm for `shape`. Errors: ARGUMENT when none serves it. */
weft_status tuner_choose(const weft_comm *comm, const struct schedule_shape *shape, const struct algorithm **algorithm,
                         struct tuner_prices *prices, struct error *error);

/** A first call waits for its prices: among more ranks than these they are extrapolated. */
#define TUNER_SIMULATED_RANKS 64

/** The same without a communicator: every price on a described cluster, shapes of up to `most_ranks` simulated whole.
 */
weft_status tuner_price(const struct simulated_cluster *cluster, const struct schedule_shape *shape,
                        uint32_t most_ranks, struct tuner_prices *prices, struct error *error);

/** Seconds that `algorithm`, which must serve `shape`, takes for shape->block_bytes on a described cluster. */
weft_status tuner_simulate(const struct algorithm *algorithm, const struct schedule_shape *shape,
                           const struct simulated_cluster *cluster, double *seconds, struct error *error);

/** The same; among more than `most_ranks` ranks it is extrapolated from smaller shapes of the same kind, where there
 * are such. */
weft_status tuner_estimate(const struct algorithm *algorithm, const struct schedule_shape *shape,
                           const struct simulated_cluster *cluster, uint32_t most_ranks, double *seconds,
                           struct error *error);

/** Numbers of a common machine and network, used where nothing was measured. */
struct simulated_cluster tuner_default_cluster(void);

/** The same with everything that a cluster file says. */
struct simulated_cluster tuner_cluster_of(const struct cluster_file *file);

/** What a measured link between nodes is simulated with: within what such links can have. */
struct link_parameters tuner_far_parameters(const struct link_cost *cost);

/* ---- what joins the nodes (core/collective/tuner/levels.c), for tuner_open() ---- */

/** What rank 0 knows of the cluster, and where it keeps it. */
struct tuner_levels {
    struct cluster_file file;   /**< level_count 0: nothing is known */
    char path[FILE_PATH_BYTES]; /**< "": not kept */
    uint32_t *leaders;          /**< of each node its lowest world rank */
    uint32_t nodes;
    bool measurable; /**< nodes may lie under leaves, and are few enough to be measured pair by pair; equal on all ranks
                      */
};

/** Learn what is known: from the file `topology`, else from what was kept of these very hosts. Only rank 0 looks. */
weft_status tuner_levels_open(struct tuner_levels *levels, weft_context *context, const char *topology,
                              struct error *error);
void tuner_levels_close(struct tuner_levels *levels);

/** A message between two nodes costs something else than is known: rank 0 asks with its first far peer, `peer`. */
bool tuner_levels_contradict(const struct tuner_levels *levels, const struct link_cost *measured);

/** The simplest cluster that fits one measured link: all nodes alike. Keeps it. On rank 0. */
void tuner_levels_flat(struct tuner_levels *levels, weft_context *context, const struct simulated_cluster *cluster,
                       const struct link_cost *far);

/** Measure all pairs of nodes, infer the leaves, keep the outcome in rank 0's `levels`. Collective over the world. */
weft_status tuner_levels_measure(struct tuner_levels *levels, weft_context *context,
                                 const struct simulated_cluster *cluster, struct error *error);

/** Rank 0 tells all ranks the units of their nodes: tuner->units. Collective over the world. */
weft_status tuner_levels_tell(const struct tuner_levels *levels, uint32_t maps, struct tuner *tuner,
                              weft_context *context, struct error *error);

/** Best time of `rounds` messages of `bytes` there and back, halved. Both ranks call it, one of them being `first`. */
weft_status tuner_ping(weft_comm *world, void *buffer, size_t bytes, int rounds, int peer, bool first, double *seconds);

/**
 * Latency and overhead of a link between nodes: half a round trip of a tiny message, the best of `rounds`, and what
 * many of them in a row add for each, which is how long it occupies its ends.
 */
weft_status tuner_tiny(weft_comm *world, void *buffer, int rounds, int peer, bool first, struct link_cost *cost);

/** Bytes a second each way, both at once, for `window` seconds; `buffers` has room for two messages of `bytes`. */
weft_status tuner_exchange(weft_comm *world, char *buffers, size_t bytes, int peer, bool first, double window,
                           double *rate);

/** Measurements were no operations of the user's: numbers and log begin anew. All ranks call it. */
void tuner_forget(weft_context *context);

#endif
