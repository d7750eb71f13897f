/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The simulator: runs the schedules of all ranks in virtual time on described links. Deterministic. Thread-safe.
 *
 * A message of n bytes occupies its sender for `overhead`, then the links on its way for (n + headers) / rate, and
 * arrives `latency` later, where it occupies its receiver for `overhead`. (The model is LogGP's: A. Alexandrov et al.,
 * "LogGP", SPAA 1995.) Its rate is a max-min fair share of the interfaces of both nodes and of the uplinks of the
 * leaves and pods that it leaves and enters, each direction by itself (internal/network.h). Messages within a node
 * occupy their receiver, which copies, for n / bandwidth; other shared-memory steps move bytes at memory bandwidth, and
 * signals cost the latency within a node. Where ranks outnumber the cores of their machine, work of a rank waits for a
 * core.
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_SIMULATE_H
#define WEFT_CORE_SCHEDULE_SIMULATE_SIMULATE_H

#include "core/schedule/generators/generate.h"

/**
 * Header bytes of a message between nodes, all layers together: many small messages fill a link sooner than a few large
 * ones.
 */
#define SIMULATED_HEADER_BYTES 128

/** Units that bytes leave: a rank, a node, a leaf, a pod. */
#define SIMULATED_UNITS (SHAPE_LEVELS + 2)

/** One level of links. Seconds and bytes per second. */
struct link_parameters {
    double latency;
    double overhead; /**< of sender and of receiver, a message */
    double bandwidth;
};

/**
 * What disturbs a cluster. All zero: nothing does. Random numbers follow from `seed` and the order of events.
 */
struct simulated_disturbance {
    uint64_t seed;
    double jitter;   /**< each overhead and each piece of local work takes 1 + jitter x e times as long, where e is
                                exponentially distributed with mean 1 */
    double slowdown; /**< all work of `slow_rank` takes that many times as long; 0: that of none */
    uint32_t slow_rank;
    bool degrade; /**< the link upward (both ways) of unit `weak_unit` of level `weak_level` (0: node, 1: leaf,
                                2: pod) is degraded: it keeps `weak_share` of its bandwidth. 0: it fails; on a node with
                                several interfaces it is the first one that fails, and its ranks use the others */
    uint32_t weak_level, weak_unit;
    double weak_share;
    double reading; /**< bytes/s that every node reads from storage outside of the pods during the collective,
                                over its interfaces, as its fair share of the links admits */
    double writing; /**< bytes/s that every node writes there */
};

struct simulated_cluster {
    struct link_parameters near;                /**< between ranks of one node */
    struct link_parameters far;                 /**< between nodes; bandwidth is that of all interfaces of a node
                                                   together, each way */
    struct link_parameters above[SHAPE_LEVELS]; /**< between leaves, between pods; bandwidth is that of one's uplinks,
                                                   each way; 0: unknown, the same as between nodes */
    uint32_t interfaces; /**< of a node; each serves consecutive ranks of the node, equally many. 0, 1: all share
                                one */
    double burst_bytes;  /**< a token bucket at every interface between nodes, each way: so many bytes pass at
                               `burst_bandwidth`, the rest at its bandwidth; idle time fills the bucket again. Full at
                               first. 0: none */
    double burst_bandwidth;
    double copy_bandwidth;   /**< bytes/s one rank copies or reduces at, within the cache */
    double memory_bandwidth; /**< bytes/s one rank moves beyond the cache */
    uint64_t cache_bytes;    /**< of the last level, a node */
    uint32_t cores;          /**< of a machine; ranks beyond them take turns. 0: a processor for every rank */
    uint32_t sharing;        /**< nodes that share a machine's cores: containers; 0: none do */
    double switching;        /**< seconds to switch ranks on a core */
    const struct simulated_disturbance *disturbance; /**< NULL: none */
};

/** A link and its load. */
struct simulated_load {
    uint32_t level; /**< 0: an interface of a node, 1: the uplinks of a leaf, 2: those of a pod */
    uint32_t unit, interface;
    bool down;    /**< into the unit */
    double bytes; /**< that messages carried over it, headers included */
    double share; /**< of its capacity, from beginning to end: 0 to 1 */
};

#define SIMULATED_LOADS 8

/** How much of it was simulated. */
enum simulated_how {
    SIMULATED_WHOLE,    /**< every rank */
    SIMULATED_FOLDED,   /**< one node, for all */
    SIMULATED_ESTIMATE, /**< smaller or simpler shapes: simulate_report() */
};

/** What a simulation found. */
struct simulated_report {
    double seconds;                  /**< from start until the last rank has finished */
    double leaving[SIMULATED_UNITS]; /**< bytes that messages carry out of the rank, node, leaf and pod that most leave.
                                          What a rank reads from and writes to others of its node in shared memory
                                          leaves a rank, too */
    double busy;                     /**< share of `seconds` that the processors of ranks work, a mean: 0 to 1 */
    uint64_t messages;               /**< of all ranks */
    struct simulated_load loads[SIMULATED_LOADS]; /**< the busiest links, of each level and direction one */
    uint32_t load_count;
    enum simulated_how how;
};

/** One step as simulated, for a timeline. */
struct simulated_step {
    uint32_t rank, lane, iteration;
    const struct step *step;
    uint64_t bytes;
    double begin, end; /**< from when it could begin until it is complete */
};

/** Called with every step when it is complete, in the order of completion. */
struct simulated_watch {
    void (*step)(void *context, const struct simulated_step *step);
    void *context;
};

/** Seconds from start until the last rank has finished, for blocks of `block_bytes`. */
weft_status schedule_simulate(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                              const struct simulated_cluster *cluster, uint64_t block_bytes, double *seconds,
                              struct error *error);

/**
 * The same with all that is found. `watch`: NULL, or to be called with every step; a long loop is watched in its first
 * iterations only, and the rest is extrapolated. Errors: SCHEDULE when a lane never completes, PEER when a failed link
 * cuts a rank off, MEMORY.
 */
weft_status schedule_simulate_report(struct schedule *const *schedules, uint32_t ranks,
                                     const struct schedule_shape *shape, const struct simulated_cluster *cluster,
                                     uint64_t block_bytes, const struct simulated_watch *watch,
                                     struct simulated_report *report, struct error *error);

/** The same for an algorithm on a shape, for shape->block_bytes: generates the schedules of all ranks. */
weft_status schedule_simulate_shape(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                    const struct simulated_cluster *cluster, const struct simulated_watch *watch,
                                    struct simulated_report *report, struct error *error);

/**
 * The same result where nodes are alike, but only one node is simulated, for all: fast among thousands of ranks.
 * *folded is whether it could be; otherwise there is no report.
 *
 * It is exact, because the schedules of every node are those of the first with its nodes exchanged by a symmetry of the
 * cluster: rotations of the nodes of a leaf, the leaves of a pod, the pods; or an exclusive or of their numbers. That is
 * checked (among very many steps for a sample of nodes). With a disturbance nothing is alike.
 */
weft_status schedule_simulate_folded(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                     const struct simulated_cluster *cluster, const struct simulated_watch *watch,
                                     struct simulated_report *report, bool *folded, struct error *error);

#endif
