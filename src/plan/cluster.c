/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/cluster.h"

#include <stdlib.h>
#include <string.h>

/* What is assumed of links that nobody has measured: a modern server's memory, a 10 Gbit/s network. */
static const struct link_parameters assumed_near = {.latency = 1e-7, .overhead = 5e-8, .bandwidth = 10e9};
static const struct link_parameters assumed_far = {.latency = 1.5e-5, .overhead = 2e-6, .bandwidth = 1.2e9};

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
    simulated->near = assumed_near;
    simulated->far = assumed_far;
    cluster->near_origin = measured(links, LINK_NEAR, &simulated->near) ? "measured" : "assumed";
    cluster->far_origin = measured(links, LINK_FAR, &simulated->far) ? "measured" : "assumed";
    simulated->copy_bandwidth = simulated->near.bandwidth;
    simulated->memory_bandwidth = simulated->near.bandwidth;
    for (uint32_t i = 0; i < machine->cache_count; i++)
        if (machine->caches[i].bytes * machine->caches[i].count > simulated->cache_bytes)
            simulated->cache_bytes = machine->caches[i].bytes * machine->caches[i].count;
    simulated->cores = limits_processors(&machine->limits);
    cluster->node_memory = limits_touchable(&machine->limits);
}

static void free_plans(struct plan **plans, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++)
        plan_free(plans[r]);
    free(plans);
}

static weft_status price(const struct algorithm *algorithm, const struct plan_shape *shape,
                         const struct simulated_cluster *links, double *seconds, struct error *error)
{
    struct plan **plans = calloc(shape->ranks, sizeof(struct plan *));
    if (!plans)
        return error_memory(error, shape->ranks * sizeof *plans, "the plans of an all-reduce");
    weft_status status = WEFT_OK;
    for (uint32_t r = 0; r < shape->ranks && status == WEFT_OK; r++)
        status = plan_generate(algorithm, shape, r, &plans[r], error);
    if (status == WEFT_OK)
        status = plan_simulate(plans, shape->ranks, shape, links, shape->block_bytes, seconds, error);
    free_plans(plans, shape->ranks);
    return status;
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
        .reproducible = true,
        .block_bytes = bytes,
    };
    size_t count;
    const struct algorithm *candidates = algorithms_of(COLLECTIVE_ALLREDUCE, &count);
    weft_status status = WEFT_OK;
    bool found = false;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        double taken;
        if (algorithm_refuses(&candidates[i], &shape))
            continue;
        status = price(&candidates[i], &shape, &cluster->links, &taken, error);
        if (status == WEFT_OK && (!found || taken < *seconds)) {
            *seconds = taken;
            *algorithm = candidates[i].name;
            found = true;
        }
    }
    free(nodes);
    if (status == WEFT_OK && !found)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no algorithm serves an all-reduce over %u ranks on %u nodes",
                         ranks, cluster->nodes);
    return status;
}
