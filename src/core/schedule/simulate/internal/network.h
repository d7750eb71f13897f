/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Messages in flight between nodes, in virtual time: those that leave or enter a unit of a level (a node, a leaf, a
 * pod) at the same time share its link's bandwidth. Used by simulate.c; belongs to one simulation.
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_NETWORK_H
#define WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_NETWORK_H

#include "core/schedule/simulate/simulate.h"

/** Levels of units that messages cross: nodes, leaves, pods. */
#define NETWORK_CROSSINGS (SHAPE_LEVELS + 1)

struct network_flow;

struct simulated_network {
    const struct schedule_shape *shape;
    const struct simulated_cluster *cluster;
    uint32_t units[NETWORK_CROSSINGS]; /**< how many there are of each level; nodes first */
    uint32_t levels;                   /**< of units that have links of their own */
    uint32_t flow_count;               /**< messages in flight */
    double next_end;                   /**< when the first of them ends; negative: none is in flight */
    uint32_t next_flow;
    double moved; /* when they were last moved */
    struct network_flow *flows;
    uint32_t *leaving[NETWORK_CROSSINGS], *entering[NETWORK_CROSSINGS]; /* flows at each unit's links upward */
    void *memory;
};

/** For up to `most` messages at once. False: out of memory; call network_close() even then. */
bool network_open(struct simulated_network *network, const struct schedule_shape *shape,
                  const struct simulated_cluster *cluster, uint32_t most);
void network_close(struct simulated_network *network);

/** The link between two ranks: the one within a node, or that of the level at which their nodes differ. */
const struct link_parameters *network_link(const struct simulated_network *network, uint32_t a, uint32_t b);

/** `sender`'s message of `bytes` between two ranks on different nodes begins. */
void network_begin(struct simulated_network *network, double now, uint32_t sender, uint32_t from_rank, uint32_t to_rank,
                   uint64_t bytes);

/** The first message has left its sender, at `next_end`: returns its sender, and how long it takes to arrive. */
uint32_t network_end(struct simulated_network *network, double *latency);

#endif
