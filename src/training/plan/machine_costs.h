/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the passes of a network's layers take on this machine, without recomputation: measured when a plan asks
 * (training/parallel/execute/costs.h), or read from a file of layer times (run/layer_times.h). Belongs to one
 * thread.
 */
#ifndef WEFT_TRAINING_PLAN_MACHINE_COSTS_H
#define WEFT_TRAINING_PLAN_MACHINE_COSTS_H

#include "training/parallel/execute/costs.h"
#include "training/plan/planner/cluster_ranks.h"
#include "training/plan/strategy.h"

/** Larger micro-batches are not measured; time is taken to be proportional to samples from there on. A sample of an image
 * network is one token, but it has as many numbers between layers as a long text: the second bound is for those. */
#define MACHINE_COSTS_TOKENS  1024
#define MACHINE_COSTS_NUMBERS ((size_t)1 << 21)

/** One measurement, of all layers. */
struct machine_measurement {
    uint32_t micro_batch; /**< sequences */
    uint32_t tensor;      /**< ranks that layers are divided over */
    bool divides_rows;
    uint32_t together; /**< ranks that computed at once */
    weft_type precision;
    double (*seconds)[COSTS_PASSES]; /**< of each layer */
};

struct machine_costs {
    const struct model_description *description; /**< of the whole network; borrowed */
    size_t sequence;
    int threads;       /**< of a rank */
    uint32_t together; /**< ranks that compute at once on a host, at most */
    bool is_read;      /**< from a file: nothing is measured any more */
    struct machine_measurement *items;
    size_t count, room;
};

/** Free the measurements. */
void machine_costs_free(struct machine_costs *costs);

/** The largest micro-batch that is measured. */
uint32_t machine_costs_largest(const struct machine_costs *costs);

/**
 * Measure once more what `key` says (without its seconds), and keep it; *seconds, of each layer, are the costs'.
 * Errors: those of costs_measure_passes().
 */
weft_status machine_costs_add(struct machine_costs *costs, const struct machine_measurement *key,
                              const double (**seconds)[COSTS_PASSES], struct error *error);

/**
 * struct planner_setting's measure(), with a struct machine_costs as context: measures what is not yet known. Of a file,
 * the next smaller micro-batch counts in proportion (without one, the smallest), and where a tensor axis was not measured,
 * equal parts of whole layers. Errors: those of costs_measure_passes(); ARGUMENT if a file has no such precision.
 */
weft_status machine_costs_measure(void *costs, const struct strategy *strategy, double (*seconds)[COSTS_PASSES],
                                  struct error *error);

/** A core of this machine as a device: its peak is measured, in each of `precisions`, and passes over memory are as fast as
 * `links` says. Errors: those of device_open(). */
weft_status machine_costs_device(const weft_type *precisions, uint32_t count, int threads,
                                 const struct simulated_cluster *links, struct cluster_device *device,
                                 struct error *error);

#endif
