/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What planners are opened with: a cluster that is described, or machines like this one, whose layers are then measured.
 * Belongs to one thread.
 */
#ifndef WEFT_TRAINING_PLAN_PLANNING_H
#define WEFT_TRAINING_PLAN_PLANNING_H

#include "training/plan/machine_costs.h"
#include "training/plan/planner/planner.h"

/** Zeroed but for its first members, it is of nothing. planning_close() frees it, also after an error. */
struct planning {
    /** By the caller: layers are measured on this machine, whatever devices a cluster describes; with so many ranks at once
     * (0: those of a host). */
    bool measures;
    uint32_t together;
    struct machine *machine;
    struct links links;
    struct cluster_file file; /**< device_count 0: devices are not described */
    struct cluster cluster;
    struct cluster_device core; /**< of this machine, where devices are not described */
    struct machine_costs costs;
    struct planner_cluster planned;
};

/**
 * Find the cluster: the one called `name` (cluster_name_load()), or (NULL) `nodes` machines like this one that have room
 * for `ranks` ranks (0: one for each processor). Errors: those of cluster_name_load() and cluster_describe_file().
 */
weft_status planning_describe(struct planning *planning, const char *name, uint32_t nodes, uint32_t ranks,
                              struct error *error);

/** Whether the cluster describes its devices. Otherwise ranks are processors like this machine's. */
static inline bool planning_has_devices(const struct planning *planning)
{
    return planning->file.device_count > 0;
}

/**
 * Place `ranks` ranks (0: all of the cluster), with `threads` threads each, and have `setting` use them: its cluster is
 * filled in and, where devices are not described, how its description, sequence and precisions are measured. Planners
 * of this setting, and of copies of it for the same description and sequence, share what is measured.
 * Errors: those of planner_cluster_open() and device_open().
 */
weft_status planning_open(struct planning *planning, uint32_t ranks, int threads, struct planner_setting *setting,
                          struct error *error);

/**
 * Have `setting` take what layers take from planning->costs, whatever devices there are: for times that were read into them
 * (run/layer_times.h). Memory, optimizer and sums remain those of the devices. After planning_open().
 */
void planning_measure(struct planning *planning, struct planner_setting *setting);

void planning_close(struct planning *planning);

#endif
