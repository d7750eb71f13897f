/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/cluster.h"

#include "core/collective/tuner/tuner.h"

#include <stdlib.h>

/* The newest entry of a level: the planner prices a cluster like this one, not one particular pair. */
static void use_measured(const struct links *links, enum link_level level, struct link_parameters *parameters)
{
    const struct link_entry *newest = NULL;
    for (size_t i = 0; i < links->count; i++)
        if (links->entries[i].level == level && (!newest || links->entries[i].measured > newest->measured))
            newest = &links->entries[i];
    if (!newest)
        return;
    *parameters = (struct link_parameters){
        .latency = newest->cost.latency,
        .overhead = newest->cost.overhead,
        .bandwidth = newest->cost.bytes_per_second,
    };
}

void cluster_describe(const struct machine *machine, const struct links *links, uint32_t nodes, uint32_t ranks_per_node,
                      struct cluster *cluster)
{
    *cluster = (struct cluster){.nodes = nodes, .ranks_per_node = ranks_per_node};
    struct simulated_cluster *simulated = &cluster->links;
    *simulated = tuner_default_cluster();
    use_measured(links, LINK_NEAR, &simulated->near);
    use_measured(links, LINK_FAR, &simulated->far);
    for (uint32_t i = 0; i < machine->cache_count; i++)
        if (machine->caches[i].bytes * machine->caches[i].count > simulated->cache_bytes)
            simulated->cache_bytes = machine->caches[i].bytes * machine->caches[i].count;
    simulated->cores = limits_processors(&machine->limits);
    cluster->node_memory = limits_touchable(&machine->limits);
}

weft_status cluster_describe_file(const struct cluster_file *file, const struct machine *machine,
                                  struct cluster *cluster, struct error *error)
{
    uint64_t ranks = cluster_file_ranks(file);
    if (!ranks || ranks > UINT32_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the cluster file '%s' does not say how large it is: every level needs a 'size'", file->name);
    const struct cluster_device *device =
        file->device_count ? &file->devices[cluster_file_group(file, 0).device] : NULL;
    *cluster = (struct cluster){.nodes = cluster_file_hosts(file),
                                .ranks_per_node = file->levels[0].size,
                                .links = tuner_cluster_of(file),
                                .node_memory = device ? device->memory_bytes * file->levels[0].size
                                                      : limits_touchable(&machine->limits),
                                .file = file};
    return WEFT_OK;
}

/* ---- placement of ranks ---- */

void cluster_map_free(struct cluster_map *map)
{
    free(map->nodes);
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        free(map->above[level]);
    *map = (struct cluster_map){0};
}

/* From leaves and pods by node to leaves by node and pods by leaf; levels with a single unit are left out. */
static weft_status map_units(const struct cluster_file *file, struct cluster_map *map, struct error *error)
{
    uint32_t maps = file ? cluster_file_maps(file) : 0, n = map->node_count;
    uint32_t *by_node[CLUSTER_MAPS] = {NULL};
    weft_status status = WEFT_OK;
    for (uint32_t level = 0; level < maps && status == WEFT_OK; level++)
        if (!(by_node[level] = calloc(n, sizeof *by_node[level])))
            status = error_memory(error, n * sizeof *by_node[level], "the leaves of a cluster");
    if (status == WEFT_OK && maps)
        status = cluster_file_place(file, NULL, n, by_node, error);
    /* Nodes are the file's first ones, so the unit of the last one counts the units. */
    for (uint32_t level = maps; status == WEFT_OK && level-- > 1;)
        for (uint32_t node = 0; node < n; node++)
            by_node[level][by_node[level - 1][node]] = by_node[level][node];
    uint32_t units = n;
    for (uint32_t level = 0; level < maps && status == WEFT_OK; level++) {
        units = by_node[level][units - 1] + 1;
        if (units == 1)
            break;
        map->above[level] = by_node[level];
        by_node[level] = NULL;
    }
    for (uint32_t level = 0; level < maps; level++)
        free(by_node[level]);
    return status;
}

weft_status cluster_map_ranks(const struct cluster_file *file, uint32_t ranks, uint32_t nodes, struct cluster_map *map,
                              struct error *error)
{
    *map = (struct cluster_map){0};
    if (!nodes && (!file || !file->levels[0].size))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the number of nodes for the %u ranks is not given", ranks);
    if (!nodes && file->group_count && ranks > cluster_file_ranks(file))
        return error_set(error, WEFT_ERROR_ARGUMENT, "%u ranks are more than the %u of the cluster '%s'", ranks,
                         (uint32_t)cluster_file_ranks(file), file->name);
    if (nodes > ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--nodes is %u, but there are only %u ranks to place", nodes,
                         ranks);
    map->nodes = malloc(ranks * sizeof *map->nodes);
    if (!map->nodes)
        return error_memory(error, ranks * sizeof *map->nodes, "the nodes of ranks");
    for (uint32_t rank = 0; nodes && rank < ranks; rank++)
        map->nodes[rank] = (uint32_t)((uint64_t)rank * nodes / ranks);
    for (uint32_t rank = 0, node = 0; !nodes && rank < ranks; node++)
        for (uint32_t left = cluster_file_group(file, node).ranks; left && rank < ranks; left--)
            map->nodes[rank++] = node;
    map->node_count = map->nodes[ranks - 1] + 1;
    weft_status status = map_units(file, map, error);
    if (status != WEFT_OK)
        cluster_map_free(map);
    return status;
}
