/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the operations of a training step cost on a described cluster, as plain data: for each layer and kind of device
 * the seconds of its passes and of its update, and for each collective and message its seconds, alone on the links, and
 * the bytes that cross each level of links.
 *
 *     status = step_prices_open(cluster, &prices, error);          once for a cluster: collectives are priced once
 *     status = step_costs_of(&setting, prices, &costs, error);     for each strategy
 *     status = step_simulate(&costs, &options, &result, error);    step_simulate.h
 *
 * A pass of a layer is its work (work.h) at the speed of the rank's device (device_time.h), or a third of a measured cost
 * (training/parallel/execute/costs.h). On a tensor axis the collectives within the layer follow it, priced for the
 * placement of the group. Collectives are priced by simulate_price(): the algorithm that the tuner would choose, simulated
 * on the group's own places. Messages take latency, overheads and bytes / bandwidth of the level at which the two ranks
 * differ (LogGP, see core/schedule/simulate/simulate.h).
 */
#ifndef WEFT_TRAINING_SIMULATE_STEP_COSTS_H
#define WEFT_TRAINING_SIMULATE_STEP_COSTS_H

#include "core/schedule/simulate/simulate.h"
#include "core/topology/cluster_device.h"
#include "training/parallel/execute/costs.h"
#include "training/parallel/execute/executor.h"
#include "training/simulate/work.h"

/** Levels of links: between ranks of a host, between hosts, between leaves, between pods. */
#define STEP_LINK_LEVELS (2 + SHAPE_LEVELS)

/** The precision of products with activations of a type. */
static inline enum cluster_precision step_precision_of(weft_type activations)
{
    return activations == WEFT_BF16 ? CLUSTER_BF16 : activations == WEFT_F16 ? CLUSTER_F16 : CLUSTER_F32;
}

/** Where ranks are and what they are. All members are borrowed. Seconds, bytes, bytes/s. */
struct step_cluster {
    const struct simulated_cluster *links;
    uint32_t ranks;
    const uint32_t *hosts;               /**< hosts[rank], from 0 in order of first appearance; NULL: all on one */
    const uint32_t *above[SHAPE_LEVELS]; /**< leaf of each host, pod of each leaf, as in struct schedule_shape */
    const struct cluster_device *devices;
    uint32_t device_count;
    const uint32_t *device_of; /**< device_of[rank], an index of `devices`; NULL: all have the first one */
    /** By how much computing slows while asynchronous communication of the rank is under way: 0.1 makes a pass take 1.1
     * times as long. Measured by weft profile machine on CPUs. */
    double overlap_slowdown;
    double collective_launch; /**< seconds that each collective takes besides its messages */
};

/** A strategy on a cluster. All members are borrowed. */
struct step_setting {
    /**
     * Mesh, placement, schedule, stages, ZeRO, micro-batches, buckets, recomputation, sequence parallelism, as for
     * executor_open(). Context, communicator, devices and pace are not used. `description` is that of the whole network,
     * and does not change.
     */
    const struct executor_config *config;
    const uint32_t *first_unit; /**< of each stage and the end; NULL: config->first_unit or, without it, balanced by
                                     the costs on the slowest device */
    const struct implementation *implementation; /**< NULL: Weft's own, with products in `precision` */
    enum cluster_precision precision;
    const struct step_cluster *cluster;
    const double (*measured)[COSTS_PASSES]; /**< seconds of each layer's passes on a rank, as costs_measure_passes() has
                                                 them, without recomputation; NULL: computed from the layers' work */
    /** The work of the network as the first rank of the tensor axis has it, recorded with what the configuration says: for
     * callers that cost many strategies with equal passes. NULL: it is recorded here. */
    const struct model_work *work;
};

/** A collective of one group, or a message, alone on the links. Zeroed: nothing to do. */
struct step_transfer {
    double seconds;
    double bytes[STEP_LINK_LEVELS]; /**< out of the busiest unit of each level: a rank, a host, a leaf, a pod; as many
                                       enter one */
    double busy;                    /**< share of `seconds` in which the ranks' processors work on it, 0 to 1 */
};

/** A layer on one rank; all micro-batches are alike. Seconds, without collectives. */
struct step_unit_costs {
    double
        passes[WORK_PASSES]; /**< by enum work_pass; that for weights includes adding to the sum over micro-batches */
    double update;           /**< of the optimizer, on this rank's share */
};

/** Prices of collectives, kept by collective, bytes and placement. Belongs to one thread. */
struct step_prices;

/** `cluster` must outlive the prices; ranks may be fewer in settings that use them. Errors: MEMORY. */
weft_status step_prices_open(const struct step_cluster *cluster, struct step_prices **prices, struct error *error);
void step_prices_close(struct step_prices *prices);

/** Everything that a simulation needs; step_costs_free() frees it. */
struct step_costs {
    struct step_shape shape; /**< first_unit is the costs' */
    uint32_t *first_unit;
    uint32_t units, ranks;
    struct mesh mesh;
    const struct step_cluster *cluster; /**< borrowed */
    uint32_t *points;                   /**< of each rank: mesh_place() */
    uint32_t *shares;                   /**< micro-batches of each coordinate of the data axis */
    struct step_unit_costs *layers;     /**< layers[device x units + unit] */

    /** The groups of each axis: groups[axis][rank] is the number of a rank's group, group_class[axis][group] that of its
     * placement. Groups of one class have the same prices. */
    uint32_t *groups[MESH_AXES], *group_class[MESH_AXES];
    uint32_t group_count[MESH_AXES], class_count[MESH_AXES];

    /** Within passes, over the tensor axis: within[(class x units + unit) x WORK_PASSES + pass]. The pass for inputs
     * includes recomputation, and WORK_RECOMPUTE is the pass for weights where that repeats it. Over the data axis:
     * [class x units + unit], under ZeRO-2 and 3 of each micro-batch. A bucket's reduction is that of its last unit. */
    struct step_transfer *within, *gathers, *reductions, *sharings;
    struct step_transfer *last_reductions; /**< those of a last micro-batch that some ranks lack; NULL: all are alike */
    struct step_transfer
        messages[STEP_LINK_LEVELS];              /**< of rows between two stages, by the level at which they differ */
    struct step_transfer ties[STEP_LINK_LEVELS]; /**< of a tied table's gradient between the first and the last stage */
    double *norms;                               /**< of squares: norms[device x pipeline ranks + pipeline rank] */
    struct step_transfer norm;                   /**< of all ranks */
    bool reductions_wait; /**< reductions begin after a rank's last pass: struct implementation */
    bool messages_block;  /**< a rank does not compute while its messages move */
};

/**
 * Cost a strategy. Errors: ARGUMENT if the strategy is impossible for the network or the cluster (the message says why);
 * MEMORY.
 */
weft_status step_costs_of(const struct step_setting *setting, struct step_prices *prices, struct step_costs *costs,
                          struct error *error);
void step_costs_free(struct step_costs *costs);

#endif
