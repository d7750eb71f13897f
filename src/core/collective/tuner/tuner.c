/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/tuner/tuner.h"

#include "core/collective/communicator/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simulated_cluster tuner_default_cluster(void)
{
    return (struct simulated_cluster){.near = {.latency = 60e-9, .overhead = 100e-9, .bandwidth = 10e9},
                                      .far = {.latency = 8e-6, .overhead = 1.5e-6, .bandwidth = 2.5e9},
                                      .copy_bandwidth = 30e9,
                                      .memory_bandwidth = 12e9,
                                      .cache_bytes = 32u << 20,
                                      .cores = 2,
                                      .switching = 0.3e-6};
}

static struct link_parameters parameters_of(const struct link_cost *cost)
{
    return (struct link_parameters){
        .latency = cost->latency, .overhead = cost->overhead, .bandwidth = cost->bytes_per_second};
}

struct simulated_cluster tuner_cluster_of(const struct cluster_file *file)
{
    struct simulated_cluster cluster = tuner_default_cluster();
    if (file->level_count)
        cluster.near = parameters_of(&file->levels[0].cost);
    if (file->level_count > 1)
        cluster.far = parameters_of(&file->levels[1].cost);
    for (uint32_t level = 2; level < file->level_count; level++)
        cluster.above[level - 2] = parameters_of(&file->levels[level].cost);
    if (file->copy_bandwidth > 0)
        cluster.copy_bandwidth = file->copy_bandwidth;
    cluster.memory_bandwidth = file->memory_bandwidth > 0 ? file->memory_bandwidth : cluster.copy_bandwidth * 0.4;
    if (file->cache_bytes)
        cluster.cache_bytes = file->cache_bytes;
    if (file->cores || file->device_count) /* devices are processors of their own */
        cluster.cores = file->cores;
    /* Hosts are simulated alike: the network of the slowest, as collectives wait for it. */
    const double level = cluster.far.bandwidth;
    for (uint32_t i = 0; i < file->group_count; i++) {
        const struct cluster_group *group = &file->groups[i];
        const double bandwidth = group->bandwidth > 0 ? group->bandwidth : level;
        if (i == 0 || bandwidth < cluster.far.bandwidth)
            cluster.far.bandwidth = bandwidth;
        /* Several interfaces of one device are as good as a single one. */
        const uint32_t interfaces = group->interfaces < group->ranks ? group->interfaces : group->ranks;
        if (i == 0 || interfaces < cluster.interfaces)
            cluster.interfaces = interfaces;
    }
    return cluster;
}

weft_status tuner_choose(const weft_comm *comm, const struct schedule_shape *shape, const struct algorithm **algorithm,
                         struct algorithm_prices *prices, struct error *error)
{
    const struct simulated_cluster *cluster = &comm->context->tuner.cluster;
    if (!prices)
        return simulate_choice(cluster, shape, SIMULATED_RANKS, algorithm, NULL, error);
    weft_status status = simulate_prices(cluster, shape, SIMULATED_RANKS, prices, error);
    if (status == WEFT_OK)
        *algorithm = prices->prices[prices->chosen].algorithm;
    return status;
}
