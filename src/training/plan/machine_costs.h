/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the layers of a network cost on this machine, without recomputation: measured when a plan asks, as weft train measures them to cut stages
 * (training/parallel/execute/costs.h). Belongs to one thread.
 */
#ifndef WEFT_TRAINING_PLAN_MACHINE_COSTS_H
#define WEFT_TRAINING_PLAN_MACHINE_COSTS_H

#include "training/plan/planner/cluster_ranks.h"
#include "training/plan/strategy.h"

/** Larger micro-batches are not measured; time is taken to be proportional to tokens from there on. */
#define MACHINE_COSTS_TOKENS 1024

struct machine_measurement {
    uint32_t micro_batch, together;
    weft_type precision;
    double *costs;
};

struct machine_costs {
    const struct model_description *description; /**< borrowed */
    size_t sequence;
    int threads;       /**< of a rank */
    uint32_t together; /**< ranks that compute at once on a host, at most */
    struct machine_measurement *items;
    size_t count, room;
};

/** Free the measurements. */
void machine_costs_free(struct machine_costs *costs);

/** struct planner_setting's measure(), with a struct machine_costs as context. Errors: those of costs_measure(). */
weft_status machine_costs_measure(void *costs, const struct strategy *strategy, double *seconds, struct error *error);

/** A core of this machine as a device: its peak is measured, in each of `precisions`, and passes over memory are as fast as
 * `links` says. Errors: those of device_open(). */
weft_status machine_costs_device(const weft_type *precisions, uint32_t count, int threads,
                                 const struct simulated_cluster *links, struct cluster_device *device,
                                 struct error *error);

#endif
