/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The simulator: runs the schedules of all ranks in virtual time on described links. Thread-safe.
 *
 * A message of n bytes occupies its sender for `overhead`, its link for (n + headers) / bandwidth, and arrives
 * `latency` later; messages that share a node's network interface, a leaf's or a pod's uplinks share its bandwidth.
 * Messages within a node occupy their receiver, which copies, for n / bandwidth; other shared-memory steps move bytes
 * at memory bandwidth, and signals cost the latency within a node. Where ranks outnumber the cores of their machine,
 * work of a rank waits for a core. (The model is LogGP's: A. Alexandrov et al., "LogGP", SPAA 1995.)
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_SIMULATE_H
#define WEFT_CORE_SCHEDULE_SIMULATE_SIMULATE_H

#include "core/schedule/generators/generate.h"

/**
 * Header bytes of a message between nodes, all layers together: many small messages fill a link sooner than a few large
 * ones.
 */
#define SIMULATED_HEADER_BYTES 128

/** One level of links. Seconds and bytes per second. */
struct link_parameters {
    double latency;
    double overhead; /**< of sender and of receiver, a message */
    double bandwidth;
};

struct simulated_cluster {
    struct link_parameters near;                /**< between ranks of one node */
    struct link_parameters far;                 /**< between nodes; bandwidth is a node's interface, each way */
    struct link_parameters above[SHAPE_LEVELS]; /**< between leaves, between pods; bandwidth is that of one's uplinks,
                                                   each way; 0: unknown, the same as between nodes */
    double copy_bandwidth;                      /**< bytes/s one rank copies or reduces at, within the cache */
    double memory_bandwidth;                    /**< bytes/s one rank moves beyond the cache */
    uint64_t cache_bytes;                       /**< of the last level, a node */
    uint32_t cores;                             /**< of a machine; ranks beyond them take turns */
    uint32_t sharing;                           /**< nodes that share a machine's cores: containers; 0: none do */
    double switching;                           /**< seconds to switch ranks on a core */
};

/** Seconds from start until the last rank has finished, for blocks of `block_bytes`. */
weft_status schedule_simulate(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                              const struct simulated_cluster *cluster, uint64_t block_bytes, double *seconds,
                              struct error *error);

#endif
