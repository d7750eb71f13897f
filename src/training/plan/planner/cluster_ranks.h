/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A cluster as plans see it: every rank with its host and its device. Made from a described or measured cluster
 * (cluster.h). Thread-safe; does not change after it is opened.
 */
#ifndef WEFT_TRAINING_PLAN_PLANNER_CLUSTER_RANKS_H
#define WEFT_TRAINING_PLAN_PLANNER_CLUSTER_RANKS_H

#include "training/plan/cluster.h"
#include "training/simulate/step_costs.h"

struct planner_cluster {
    const char *name; /**< borrowed */
    struct step_cluster step;
    struct simulated_cluster links;                      /**< what step.links is */
    struct cluster_device devices[CLUSTER_DEVICES_MOST]; /**< what step.devices is */
    struct cluster_map map;
    uint32_t *device_of;
    uint32_t hosts, ranks_per_host; /**< of the host that has the most */
    uint64_t host_memory;           /**< bytes that the ranks of a host share; 0: each device has its own */
};

/**
 * `ranks` ranks of `cluster`, host by host; 0: all. `device` is what each rank computes with where the cluster's file
 * describes none, and its memory is then ignored: ranks share cluster->node_memory. planner_cluster_close() frees it.
 *
 * Errors: ARGUMENT if the cluster has fewer ranks, or describes no device and `device` is NULL; MEMORY.
 */
weft_status planner_cluster_open(const struct cluster *cluster, uint32_t ranks, const struct cluster_device *device,
                                 struct planner_cluster *planned, struct error *error);
void planner_cluster_close(struct planner_cluster *planned);

#endif
