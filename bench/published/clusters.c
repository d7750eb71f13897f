/* SPDX-License-Identifier: Apache-2.0 */
#include "clusters.h"

#include "core/collective/tuner/tuner.h"
#include "core/topology/cluster_name.h"

#include <stdio.h>
#include <string.h>

#define HOST_RANKS 8

const struct parameter_facts parameter_facts[PARAMETERS] = {
    [PARAMETER_PRODUCT_SHARE] = {"product_share", "of the peak", 0.80, 0.4, 1, "large f16 products by cuBLAS"},
    [PARAMETER_PRODUCT_FILL] = {"product_fill", "elements", 200, 1, 2000, "4 us of a tile, assumed"},
    [PARAMETER_NODE_BANDWIDTH] = {"node_bandwidth", "of the description", 1, 0.2, 1.4, "NCCL all-reduce of 1 GiB"},
    [PARAMETER_COLLECTIVE_LAUNCH] = {"collective_launch", "s", 70e-6, 1e-6, 1e-3, "NCCL all-reduce of 1 MiB"},
    [PARAMETER_INTERFACE_SHARE] = {"interface_share", "of the data sheet", 0.90, 0.2, 1, "protocols, assumed"},
};

void parameters_reset(double parameters[PARAMETERS])
{
    for (int i = 0; i < PARAMETERS; i++)
        parameters[i] = parameter_facts[i].unfitted;
}

weft_status published_cluster_open(const char *kind, uint32_t ranks, struct published_cluster *cluster,
                                   struct error *error)
{
    char name[2 * CLUSTER_NAME_BYTES];
    *cluster = (struct published_cluster){.ranks = ranks};
    snprintf(cluster->kind, sizeof cluster->kind, "%s", kind);
    snprintf(name, sizeof name, "%s-%u", kind, (ranks + HOST_RANKS - 1) / HOST_RANKS);
    weft_status status = cluster_name_load(name, &cluster->described, error);
    if (status == WEFT_OK)
        status = cluster_map_ranks(&cluster->described, ranks, 0, &cluster->map, error);
    return status;
}

void published_cluster_close(struct published_cluster *cluster)
{
    step_prices_close(cluster->prices);
    cluster_map_free(&cluster->map);
    cluster_file_free(&cluster->described);
}

static void change_links(struct published_cluster *cluster, const double parameters[PARAMETERS])
{
    struct cluster_file *file = &cluster->file;
    file->levels[0].cost.bytes_per_second *= parameters[PARAMETER_NODE_BANDWIDTH];
    file->copy_bandwidth *= parameters[PARAMETER_NODE_BANDWIDTH];
    file->memory_bandwidth *= parameters[PARAMETER_NODE_BANDWIDTH];
    file->collective_launch = parameters[PARAMETER_COLLECTIVE_LAUNCH];
    for (uint32_t level = 1; level < file->level_count; level++)
        file->levels[level].cost.bytes_per_second *= parameters[PARAMETER_INTERFACE_SHARE];
    for (uint32_t g = 0; g < file->group_count; g++)
        file->groups[g].bandwidth *= parameters[PARAMETER_INTERFACE_SHARE];
    cluster->links = tuner_cluster_of(file);
    cluster->step = (struct step_cluster){.links = &cluster->links,
                                          .ranks = cluster->ranks,
                                          .hosts = cluster->map.nodes,
                                          .above = {cluster->map.above[0], cluster->map.above[1]},
                                          .devices = file->devices,
                                          .device_count = 1,
                                          .collective_launch = file->collective_launch};
}

weft_status published_cluster_apply(struct published_cluster *cluster, const double parameters[PARAMETERS],
                                    struct error *error)
{
    const bool is_priced = cluster->prices && !memcmp(cluster->parameters + PARAMETER_FIRST_OF_LINKS,
                                                      parameters + PARAMETER_FIRST_OF_LINKS,
                                                      (PARAMETERS - PARAMETER_FIRST_OF_LINKS) * sizeof *parameters);
    weft_status status = WEFT_OK;
    if (!is_priced) {
        step_prices_close(cluster->prices);
        cluster->prices = NULL;
        cluster->file = cluster->described;
        change_links(cluster, parameters);
        status = step_prices_open(&cluster->step, &cluster->prices, error);
    }
    struct cluster_device *device = &cluster->file.devices[0];
    device->product_share = parameters[PARAMETER_PRODUCT_SHARE];
    device->product_fill = parameters[PARAMETER_PRODUCT_FILL];
    memcpy(cluster->parameters, parameters, sizeof cluster->parameters);
    return status;
}
