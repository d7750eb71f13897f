/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/planner/cluster_ranks.h"

#include <stdlib.h>
#include <string.h>

/* The host of each rank where groups of hosts differ in size. */
static void place_by_groups(const struct cluster_file *file, struct planner_cluster *planned)
{
    uint32_t rank = 0, host = 0;
    planned->ranks_per_host = 0;
    for (uint32_t g = 0; g < file->group_count; g++)
        for (uint32_t h = 0; h < file->groups[g].hosts && rank < planned->step.ranks; h++, host++) {
            const uint32_t left = planned->step.ranks - rank,
                           ranks = file->groups[g].ranks < left ? file->groups[g].ranks : left;
            for (uint32_t i = 0; i < ranks; i++, rank++) {
                planned->map.nodes[rank] = host;
                planned->device_of[rank] = file->groups[g].device;
            }
            if (ranks > planned->ranks_per_host)
                planned->ranks_per_host = ranks;
        }
    planned->hosts = host;
}

static void place_evenly(const struct cluster *cluster, struct planner_cluster *planned)
{
    const uint32_t each = cluster->ranks_per_node, ranks = planned->step.ranks;
    for (uint32_t rank = 0; rank < ranks; rank++)
        planned->map.nodes[rank] = rank / each;
    planned->ranks_per_host = each < ranks ? each : ranks;
    planned->hosts = (ranks + each - 1) / each;
}

static uint64_t ranks_of(const struct cluster *cluster)
{
    const struct cluster_file *file = cluster->file;
    uint64_t ranks = 0;
    for (uint32_t g = 0; file && g < file->group_count; g++)
        ranks += (uint64_t)file->groups[g].hosts * file->groups[g].ranks;
    return ranks ? ranks : (uint64_t)cluster->nodes * cluster->ranks_per_node;
}

static weft_status take_devices(const struct cluster *cluster, const struct cluster_device *device,
                                struct planner_cluster *planned, struct error *error)
{
    const struct cluster_file *file = cluster->file;
    if (file && file->device_count) {
        memcpy(planned->devices, file->devices, sizeof file->devices);
        planned->step.device_count = file->device_count;
        for (uint32_t d = 0; d < file->device_count; d++)
            if (!file->devices[d].memory_bytes)
                planned->host_memory = cluster->node_memory;
        return WEFT_OK;
    }
    if (!device)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the cluster '%s' describes no devices, so a step on it cannot be predicted; add 'devices' to "
                         "its file (docs/cluster-files.md)",
                         planned->name);
    planned->devices[0] = *device;
    planned->step.device_count = 1;
    planned->host_memory = cluster->node_memory;
    return WEFT_OK;
}

static uint32_t host_count(const struct cluster *cluster, uint32_t ranks)
{
    const struct cluster_file *file = cluster->file;
    uint64_t placed = 0;
    uint32_t hosts = 0;
    if (!file || !file->group_count)
        return (ranks + cluster->ranks_per_node - 1) / cluster->ranks_per_node;
    for (uint32_t g = 0; g < file->group_count; g++)
        for (uint32_t h = 0; h < file->groups[g].hosts && placed < ranks; h++, hosts++)
            placed += file->groups[g].ranks;
    return hosts;
}

weft_status planner_cluster_open(const struct cluster *cluster, uint32_t ranks, const struct cluster_device *device,
                                 struct planner_cluster *planned, struct error *error)
{
    const uint64_t all = ranks_of(cluster);
    *planned =
        (struct planner_cluster){.name = cluster->file ? cluster->file->name : "this machine", .links = cluster->links};
    planned->step.ranks = ranks ? ranks : (uint32_t)all;
    if (planned->step.ranks > all)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the cluster '%s' has %llu ranks, not %u", planned->name,
                         (unsigned long long)all, ranks);
    weft_status status = take_devices(cluster, device, planned, error);
    if (status == WEFT_OK)
        status = cluster_map_ranks(cluster->file, planned->step.ranks, host_count(cluster, planned->step.ranks),
                                   &planned->map, error);
    if (status == WEFT_OK && !(planned->device_of = calloc(planned->step.ranks, sizeof *planned->device_of)))
        status = error_memory(error, planned->step.ranks * sizeof *planned->device_of, "the devices of the ranks");
    if (status != WEFT_OK)
        return status;
    if (cluster->file && cluster->file->group_count)
        place_by_groups(cluster->file, planned);
    else
        place_evenly(cluster, planned);
    planned->step.links = &planned->links;
    planned->step.devices = planned->devices;
    planned->step.device_of = planned->device_of;
    planned->step.hosts = planned->map.nodes;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        planned->step.above[level] = planned->map.above[level];
    planned->step.overlap_slowdown = cluster->file ? cluster->file->overlap_slowdown : 0;
    planned->step.collective_launch = cluster->file ? cluster->file->collective_launch : 0;
    return WEFT_OK;
}

void planner_cluster_close(struct planner_cluster *planned)
{
    cluster_map_free(&planned->map);
    free(planned->device_of);
    *planned = (struct planner_cluster){0};
}
