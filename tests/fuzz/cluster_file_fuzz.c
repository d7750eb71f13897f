/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a cluster file: refused with a message, or numbers that can be used and units that can be placed. */
#include "core/topology/cluster_file.h"

#include <stdio.h>
#include <stdlib.h>

#define NODES 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is written is read again, and is as large. */
static void check_rewritten(const struct cluster_file *cluster)
{
    char *text = NULL;
    size_t size = 0;
    struct cluster_file again;
    struct error error = {0};
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    cluster_file_write(cluster, out);
    fclose(out);
    if (cluster_file_parse(text, size, "written", &again, &error) != WEFT_OK) {
        fprintf(stderr, "%s\n%s", error.text, text);
        abort();
    }
    if (cluster_file_ranks(&again) != cluster_file_ranks(cluster) || again.host_count != cluster->host_count ||
        again.device_count != cluster->device_count)
        abort();
    cluster_file_free(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster_file cluster;
    struct error error = {0};
    uint32_t leaves[NODES] = {0}, pods[NODES] = {0}, *const units[CLUSTER_MAPS] = {leaves, pods};
    if (cluster_file_parse((const char *)data, size, "input", &cluster, &error) != WEFT_OK) {
        if (!*error.text || cluster.hosts)
            abort();
        return 0;
    }
    if (!cluster.level_count || cluster.level_count > CLUSTER_LEVELS)
        abort();
    for (uint32_t level = 0; level < cluster.level_count; level++)
        if (!(cluster.levels[level].cost.latency >= 0 && cluster.levels[level].cost.bytes_per_second > 0))
            abort();
    for (uint32_t group = 0; group < cluster.group_count; group++)
        if (!cluster.groups[group].hosts || !cluster.groups[group].ranks ||
            (cluster.device_count && cluster.groups[group].device >= cluster.device_count))
            abort();
    check_rewritten(&cluster);
    uint32_t nodes = cluster.host_count && cluster.host_count < NODES ? cluster.host_count : NODES;
    if (cluster_file_place(&cluster, NULL, nodes, units, &error) != WEFT_OK)
        abort();
    for (uint32_t node = 1; node < nodes; node++) /* nodes that share a leaf share a pod */
        if (leaves[node] < leaves[node - 1] || (leaves[node] == leaves[node - 1] && pods[node] != pods[node - 1]))
            abort();
    cluster_file_free(&cluster);
    return 0;
}
