/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Leaves: which nodes share a leaf switch, inferred from measurements between all pairs of nodes. Pure functions.
 *
 * Pairs are measured in rounds in which every node has one partner, all pairs at once. Pairs under different leaves
 * then share uplinks, so an oversubscribed spine is detected, not only one that is slower for a single message. All
 * rounds are a pass, in which each pair of nodes is measured once; a node sends as many messages as there are nodes.
 */
#ifndef WEFT_CORE_TOPOLOGY_LEAVES_H
#define WEFT_CORE_TOPOLOGY_LEAVES_H

#include "core/topology/links.h"

#include <stdbool.h>
#include <stdint.h>

/** Above this many nodes pairs are not measured: use a cluster file. */
#define LEAVES_NODES_MOST 64

/** The number of rounds for `nodes` nodes. */
uint32_t leaves_rounds(uint32_t nodes);

/** The partner of `node` in a round; `node` itself when it has none. */
uint32_t leaves_partner(uint32_t nodes, uint32_t round, uint32_t node);

/** Measurements: costs[a x nodes + b] for a < b; the rest is unused. */
struct leaves_measured {
    uint32_t nodes;
    const struct link_cost *costs;
};

/**
 * Combine repeated measurements: `best` (zeros at first) takes from `pass` what load has disturbed less, the lower
 * latency and overhead of each pair, and of each round the bandwidths of the pass whose slowest pair was the fastest.
 * (Not the fastest of each pair: while one pair stands still, another gets all of an uplink that they share.)
 */
void leaves_combine(const struct leaves_measured *pass, struct link_cost *best);

/**
 * Group the nodes: leaf[n] is the leaf of node n, numbered in order of first appearance. Returns how many leaves there
 * are; 1 when the measurements do not separate nodes, or contradict each other: a grouping is accepted only if all
 * pairs within groups are clearly faster than all pairs across. Bandwidth is examined first, then latency. 0 when
 * memory ran out.
 */
uint32_t leaves_infer(const struct leaves_measured *measured, uint32_t *leaf);

/**
 * Median costs within leaves (`within`; bandwidth of one node) and between them (`between`; bandwidth of a leaf's
 * uplinks, as far as its nodes together could fill them). `between` is unchanged if there is one leaf.
 */
void leaves_costs(const struct leaves_measured *measured, const uint32_t *leaf, uint32_t leaves,
                  struct link_cost *within, struct link_cost *between);

#endif
