/* SPDX-License-Identifier: Apache-2.0 */
/** The members of a planner, shared by the files of this directory. */
#ifndef WEFT_TRAINING_PLAN_INTERNAL_PLANNER_PARTS_H
#define WEFT_TRAINING_PLAN_INTERNAL_PLANNER_PARTS_H

#include "training/plan/planner.h"
#include "training/train/loop/parallel_choice.h"

/** The stages that a network is cut into. */
struct stage_cut {
    uint32_t stages;
    uint32_t *first_unit; /**< stages + 1 */
};

/** Kinds of operations that compute: forward, backward for inputs, backward for weights. */
#define PASS_KINDS 3

/** A layer on one rank for one micro-batch: seconds on a kind of device, and at least those of collectives within. */
struct pass_seconds {
    double pass[PASS_KINDS];
};

/** What the layers cost for one choice of passes: micro-batch, recomputation, precision, tensor and sequence axes. */
struct pass_table {
    struct strategy key;
    struct pass_seconds *seconds; /**< [device x units + unit]; of all devices at least, as the bounds need it */
    double *balance;              /**< [device x units + unit]: all passes, for cutting stages */
    double *measured;             /**< [unit], for executor_config.costs; NULL: not measured */
    double *elements;             /**< [unit]: of weights on a rank */
    double *kept;                 /**< [unit]: bytes of activations from forward to backward, at least */
    double flops, chain_flops;    /**< of all passes of all layers; of forward and for inputs: one micro-batch's way */
    double chain;                 /**< seconds of the latter on the fastest device */
    double sum, unit_most;        /**< seconds of all passes on the fastest device: of all layers, of the longest */
    struct stage_cut *cuts;       /**< where devices are alike */
    size_t cut_count, cut_room;
};

struct planner {
    struct planner_setting setting;
    struct strategy_space space;
    struct step_prices *prices;
    size_t units;
    bool is_even;                           /**< all ranks compute with the first rank's kind of device */
    double near_bandwidth;                  /**< largest rate at which a rank receives from others of its host */
    double rates[CLUSTER_PRECISIONS], rate; /**< the largest rate of operations of a rank: in a precision, in any */
    struct model_description **divided;     /**< of rank 0 of each tensor extent; NULL: not needed yet */
    struct pass_table **tables;
    size_t table_count, table_room;
    uint32_t *table_slots; /**< a hash table of them: number + 1, or 0 */
    size_t table_slot_count;
};

static inline uint32_t planner_device_of(const struct planner *planner, uint32_t rank)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    return cluster->device_of ? cluster->device_of[rank] : 0;
}

/** The table for the choices of a strategy at STRATEGY_PASSES or below. Errors: MEMORY; those of measuring. */
weft_status planner_passes(struct planner *planner, const struct strategy *strategy, const struct pass_table **table,
                           struct error *error);
void planner_passes_free(struct planner *planner);

/** The kind of device that each pipeline rank has, the slowest of its data and tensor ranks: devices[pipeline]. */
weft_status planner_pipeline_devices(struct planner *planner, const struct strategy *strategy,
                                     const struct pass_table *table, uint32_t *devices, struct error *error);

/** The stages of a strategy: borrowed until the next call where devices differ. */
weft_status planner_cut(struct planner *planner, const struct strategy *strategy, const struct pass_table *table,
                        const uint32_t **first_unit, struct error *error);

/** The configuration of a strategy, and its choice, with stages. `words` must live as long. */
weft_status planner_configure(struct planner *planner, const struct strategy *strategy, struct strategy_words *words,
                              struct train_config *config, struct parallel_choice *choice, struct error *error);

/** struct search_problem's. */
weft_status planner_excess(void *planner, const struct strategy *partial, enum strategy_depth depth, uint64_t *bytes,
                           struct error *error);

/** Hosts over which a group of an axis is spread at least: with a placement, as it is. */
uint32_t planner_hosts_of(const struct planner *planner, const struct strategy *strategy, enum mesh_axis axis,
                          bool placed);

#endif
