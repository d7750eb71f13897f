/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/cluster_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cluster_file_free(struct cluster_file *cluster)
{
    free(cluster->hosts);
    *cluster = (struct cluster_file){0};
}

uint32_t cluster_file_maps(const struct cluster_file *cluster)
{
    return cluster->level_count > 2 ? cluster->level_count - 2 : 0;
}

uint64_t cluster_file_ranks(const struct cluster_file *cluster)
{
    uint64_t ranks = cluster->levels[0].size;
    if (cluster->group_count) {
        ranks = 0;
        for (uint32_t group = 0; group < cluster->group_count; group++)
            ranks += (uint64_t)cluster->groups[group].hosts * cluster->groups[group].ranks;
        return ranks;
    }
    if (cluster->host_count)
        return ranks * cluster->host_count;
    for (uint32_t depth = 1; depth < cluster->level_count; depth++)
        ranks *= cluster->levels[depth].size;
    return ranks;
}

uint32_t cluster_file_hosts(const struct cluster_file *cluster)
{
    uint64_t hosts = 0;
    for (uint32_t group = 0; group < cluster->group_count; group++)
        hosts += cluster->groups[group].hosts;
    if (!cluster->group_count && cluster->host_count)
        return cluster->host_count;
    for (uint32_t depth = 1; !cluster->group_count && depth < cluster->level_count; depth++)
        hosts = (depth > 1 ? hosts : 1) * cluster->levels[depth].size;
    return cluster->level_count == 1 && !cluster->group_count ? 1 : (uint32_t)(hosts < UINT32_MAX ? hosts : UINT32_MAX);
}

struct cluster_group cluster_file_group(const struct cluster_file *cluster, uint32_t host)
{
    for (uint32_t group = 0; group < cluster->group_count; group++) {
        if (host < cluster->groups[group].hosts)
            return cluster->groups[group];
        host -= cluster->groups[group].hosts;
    }
    if (cluster->group_count) /* beyond the last one */
        return cluster->groups[cluster->group_count - 1];
    return (struct cluster_group){.hosts = cluster_file_hosts(cluster), .ranks = cluster->levels[0].size};
}

weft_status cluster_file_resize(struct cluster_file *cluster, uint32_t hosts, struct error *error)
{
    if (cluster->host_count || cluster->group_count > 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the cluster '%s' cannot have another number of hosts, as its file %s", cluster->name,
                         cluster->host_count ? "names them" : "describes groups of different ones");
    if (cluster->level_count < 2 && hosts > 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the cluster '%s' has no links between hosts: it is one host",
                         cluster->name);
    cluster->groups[0] = cluster_file_group(cluster, 0);
    cluster->groups[0].hosts = hosts;
    cluster->group_count = 1;
    uint32_t units = hosts;
    for (uint32_t depth = 1; depth < cluster->level_count; depth++) {
        struct cluster_level *level = &cluster->levels[depth];
        if (depth + 1 == cluster->level_count || units <= level->size) {
            level->size = units;
            cluster->level_count = depth + 1;
        }
        units = (units + level->size - 1) / level->size;
    }
    return WEFT_OK;
}

const struct cluster_host *cluster_file_find_host(const struct cluster_file *cluster, const char *name)
{
    for (uint32_t i = 0; i < cluster->host_count; i++)
        if (strcmp(cluster->hosts[i].name, name) == 0)
            return &cluster->hosts[i];
    return NULL;
}

weft_status cluster_file_place(const struct cluster_file *cluster, const char *const *hosts, uint32_t nodes,
                               uint32_t *const units[CLUSTER_MAPS], struct error *error)
{
    for (uint32_t node = 0; node < nodes; node++) {
        const struct cluster_host *host = NULL;
        if (cluster->host_count && hosts)
            host = cluster_file_find_host(cluster, hosts[node]);
        else if (cluster->host_count && node < cluster->host_count)
            host = &cluster->hosts[node];
        if (cluster->host_count && !host)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "the cluster file '%s' lists %u hosts, and %s is not one of them: add it, or use the file "
                             "of these hosts",
                             cluster->name, cluster->host_count, hosts ? hosts[node] : "another one");
        uint32_t unit = node;
        for (uint32_t map = 0; map < cluster_file_maps(cluster); map++) {
            unit = host ? host->units[map] : unit / cluster->levels[map + 1].size;
            units[map][node] = unit;
        }
    }
    return WEFT_OK;
}

weft_status cluster_file_cache_path(uint64_t hash, char path[FILE_PATH_BYTES], struct error *error)
{
    char links[FILE_PATH_BYTES], name[64];
    weft_status status = links_default_path(links, error);
    if (status != WEFT_OK)
        return status;
    links[file_name(links) - links] = '\0'; /* beside the cache of links */
    snprintf(name, sizeof name, "clusters/%016" PRIx64 ".yaml", hash);
    return file_join(path, links, name, error);
}
