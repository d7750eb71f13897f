/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/simulate/internal/network.h"

#include <stdlib.h>

struct network_flow {
    uint32_t sender;
    uint32_t from[NETWORK_CROSSINGS], to[NETWORK_CROSSINGS]; /* units of each level below `crossed` */
    uint32_t crossed;                                        /* the number of levels whose units it leaves */
    double left, rate;                                       /* bytes, bytes per second */
};

/* The link that joins the units of a level: nodes under a leaf, leaves in a pod, pods. */
static const struct link_parameters *link_of(const struct simulated_network *network, uint32_t level)
{
    return level ? &network->cluster->above[level - 1] : &network->cluster->far;
}

/* How many levels two nodes differ in: 0 for one node, 1 for two under one leaf. */
static uint32_t levels_crossed(const struct simulated_network *network, uint32_t a, uint32_t b)
{
    uint32_t crossed = 0;
    while (a != b && crossed < network->levels) {
        if (++crossed < network->levels) {
            a = network->shape->above[crossed - 1][a];
            b = network->shape->above[crossed - 1][b];
        }
    }
    return crossed;
}

const struct link_parameters *network_link(const struct simulated_network *network, uint32_t a, uint32_t b)
{
    uint32_t crossed = levels_crossed(network, shape_node(network->shape, a), shape_node(network->shape, b));
    return crossed ? link_of(network, crossed - 1) : &network->cluster->near;
}

/* Advance all flows to `now`, and divide the links again. */
static void network_settle(struct simulated_network *network, double now)
{
    double passed = now - network->moved;
    network->moved = now;
    network->next_end = -1;
    for (uint32_t i = 0; i < network->flow_count; i++) {
        struct network_flow *flow = &network->flows[i];
        flow->left -= passed * flow->rate;
        for (uint32_t level = 0; level < flow->crossed; level++) {
            uint32_t leaving = network->leaving[level][flow->from[level]];
            uint32_t entering = network->entering[level][flow->to[level]];
            double rate = link_of(network, level)->bandwidth / (leaving > entering ? leaving : entering);
            if (!level || rate < flow->rate)
                flow->rate = rate;
        }
        double end = flow->left > 0 ? now + flow->left / flow->rate : now;
        if (network->next_end < 0 || end < network->next_end) {
            network->next_end = end;
            network->next_flow = i;
        }
    }
}

void network_begin(struct simulated_network *network, double now, uint32_t sender, uint32_t from_rank, uint32_t to_rank,
                   uint64_t bytes)
{
    struct network_flow *flow = &network->flows[network->flow_count++];
    uint32_t from = shape_node(network->shape, from_rank), to = shape_node(network->shape, to_rank);
    *flow = (struct network_flow){.sender = sender,
                                  .crossed = levels_crossed(network, from, to),
                                  .left = (double)bytes + SIMULATED_HEADER_BYTES,
                                  .rate = 0};
    for (uint32_t level = 0; level < flow->crossed; level++) {
        flow->from[level] = level ? network->shape->above[level - 1][flow->from[level - 1]] : from;
        flow->to[level] = level ? network->shape->above[level - 1][flow->to[level - 1]] : to;
        network->leaving[level][flow->from[level]]++;
        network->entering[level][flow->to[level]]++;
    }
    network_settle(network, now);
}

uint32_t network_end(struct simulated_network *network, double *latency)
{
    struct network_flow flow = network->flows[network->next_flow];
    double now = network->next_end;
    for (uint32_t i = network->next_flow; i + 1 < network->flow_count; i++) /* the others stay in order */
        network->flows[i] = network->flows[i + 1];
    network->flow_count--;
    for (uint32_t level = 0; level < flow.crossed; level++) {
        network->leaving[level][flow.from[level]]--;
        network->entering[level][flow.to[level]]--;
    }
    network_settle(network, now);
    *latency = link_of(network, flow.crossed - 1)->latency;
    return flow.sender;
}

/* ---- setting up ---- */

bool network_open(struct simulated_network *network, const struct schedule_shape *shape,
                  const struct simulated_cluster *cluster, uint32_t most)
{
    *network = (struct simulated_network){.shape = shape, .cluster = cluster, .levels = 1, .next_end = -1};
    while (network->levels < shape_levels(shape) && link_of(network, network->levels)->bandwidth > 0)
        network->levels++;
    size_t units = 0;
    for (uint32_t level = 0; level < network->levels; level++)
        units += network->units[level] = shape_units(shape, level);
    network->flows = calloc(most + (size_t)1, sizeof *network->flows);
    uint32_t *counts = network->memory = calloc(2 * units + 1, sizeof *counts);
    if (!network->flows || !counts)
        return false;
    for (uint32_t level = 0; level < network->levels; level++) {
        network->leaving[level] = counts;
        network->entering[level] = counts + network->units[level];
        counts += 2 * (size_t)network->units[level];
    }
    return true;
}

void network_close(struct simulated_network *network)
{
    free(network->flows);
    free(network->memory);
}
