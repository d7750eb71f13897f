/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/cluster.h"

#include "collective/tuner.h"

#include <stdlib.h>

/* The newest entry of a level: the planner prices a cluster like this one, not one particular pair. */
static bool measured(const struct links *links, enum link_level level, struct link_parameters *parameters)
{
    const struct link_entry *newest = NULL;
    for (size_t i = 0; i < links->count; i++)
        if (links->entries[i].level == level && (!newest || links->entries[i].measured > newest->measured))
            newest = &links->entries[i];
    if (!newest)
        return false;
    *parameters = (struct link_parameters){
        .latency = newest->cost.latency,
        .overhead = newest->cost.overhead,
        .bandwidth = newest->cost.bytes_per_second,
    };
    return true;
}

void cluster_describe(const struct machine *machine, const struct links *links, uint32_t nodes, uint32_t ranks_per_node,
                      struct cluster *cluster)
{
    *cluster = (struct cluster){.nodes = nodes, .ranks_per_node = ranks_per_node};
    struct simulated_cluster *simulated = &cluster->links;
    *simulated = tuner_default_cluster();
    cluster->near_origin = measured(links, LINK_NEAR, &simulated->near) ? "measured" : "assumed";
    cluster->far_origin = measured(links, LINK_FAR, &simulated->far) ? "measured" : "assumed";
    for (uint32_t i = 0; i < machine->cache_count; i++)
        if (machine->caches[i].bytes * machine->caches[i].count > simulated->cache_bytes)
            simulated->cache_bytes = machine->caches[i].bytes * machine->caches[i].count;
    simulated->cores = limits_processors(&machine->limits);
    cluster->node_memory = limits_touchable(&machine->limits);
}

weft_status cluster_price_allreduce(const struct cluster *cluster, uint32_t ranks, uint64_t bytes, double *seconds,
                                    const char **algorithm, struct error *error)
{
    *seconds = 0;
    *algorithm = "none";
    if (ranks == 1)
        return WEFT_OK;
    uint32_t *nodes = malloc(ranks * sizeof *nodes);
    if (!nodes)
        return error_memory(error, ranks * sizeof *nodes, "the nodes of an all-reduce");
    for (uint32_t r = 0; r < ranks; r++)
        nodes[r] = r / cluster->ranks_per_node;
    struct plan_shape shape = {
        .collective = COLLECTIVE_ALLREDUCE,
        .ranks = ranks,
        .nodes = nodes,
        .reproducible = true, /* as training's communicator is */
        .block_bytes = bytes,
    };
    struct tuner_prices prices;
    weft_status status = tuner_price(&cluster->links, &shape, &prices, error);
    if (status == WEFT_OK) {
        const struct tuner_price *chosen = &prices.prices[prices.chosen];
        *algorithm = chosen->algorithm->name;
        *seconds = chosen->seconds;
        if (ranks > TUNER_SIMULATED_RANKS)
            status = tuner_simulate(chosen->algorithm, &shape, &cluster->links, seconds, error);
    }
    free(nodes);
    return status;
}
