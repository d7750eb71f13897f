/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a cluster file: refused with a message, or numbers that can be used and units that can be placed. */
#include "core/topology/cluster_file.h"

#include <stdlib.h>

#define NODES 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    uint32_t nodes = cluster.host_count && cluster.host_count < NODES ? cluster.host_count : NODES;
    if (cluster_file_place(&cluster, NULL, nodes, units, &error) != WEFT_OK)
        abort();
    for (uint32_t node = 1; node < nodes; node++) /* nodes that share a leaf share a pod */
        if (leaves[node] < leaves[node - 1] || (leaves[node] == leaves[node - 1] && pods[node] != pods[node - 1]))
            abort();
    cluster_file_free(&cluster);
    return 0;
}
