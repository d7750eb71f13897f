/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/planning.h"

#include "core/topology/cluster_name.h"

/* Ranks compute as this machine does, all alike. */
static void forget_devices(struct cluster_file *file)
{
    file->device_count = 0;
    for (uint32_t g = 0; g < file->group_count; g++)
        file->groups[g].device = 0;
}

weft_status planning_describe(struct planning *planning, const char *name, uint32_t nodes, uint32_t ranks,
                              struct error *error)
{
    weft_status status = machine_discover(&planning->machine, error);
    if (status == WEFT_OK && name) {
        status = cluster_name_load(name, &planning->file, error);
        if (planning->measures)
            forget_devices(&planning->file);
        return status == WEFT_OK ? cluster_describe_file(&planning->file, planning->machine, &planning->cluster, error)
                                 : status;
    }
    if (status != WEFT_OK)
        return status;
    if (!ranks)
        ranks = nodes * limits_processors(&planning->machine->limits);
    links_load(NULL, &planning->links, NULL); /* without measured links, typical ones */
    cluster_describe(planning->machine, &planning->links, nodes, (ranks + nodes - 1) / nodes, &planning->cluster);
    return WEFT_OK;
}

void planning_measure(struct planning *planning, struct planner_setting *setting)
{
    setting->measure = machine_costs_measure;
    setting->context = &planning->costs;
}

weft_status planning_open(struct planning *planning, uint32_t ranks, int threads, struct planner_setting *setting,
                          struct error *error)
{
    const struct cluster_device *device = planning_has_devices(planning) ? NULL : &planning->core;
    weft_status status = WEFT_OK;
    if (device)
        status = machine_costs_device(setting->space.precisions, setting->space.precision_count, threads,
                                      &planning->cluster.links, &planning->core, error);
    if (status == WEFT_OK)
        status = planner_cluster_open(&planning->cluster, ranks, device, &planning->planned, error);
    setting->cluster = &planning->planned;
    planning->costs =
        (struct machine_costs){.description = setting->description,
                               .sequence = (size_t)setting->config->sequence,
                               .threads = threads,
                               .together = planning->together ? planning->together : planning->planned.ranks_per_host};
    if (device)
        planning_measure(planning, setting);
    return status;
}

void planning_close(struct planning *planning)
{
    planner_cluster_close(&planning->planned);
    machine_costs_free(&planning->costs);
    cluster_file_free(&planning->file);
    links_free(&planning->links);
    machine_free(planning->machine);
    *planning = (struct planning){0};
}
