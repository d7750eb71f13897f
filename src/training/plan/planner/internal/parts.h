/* SPDX-License-Identifier: Apache-2.0 */
/** The members of a planner, shared by the files of this directory. */
#ifndef WEFT_TRAINING_PLAN_PLANNER_INTERNAL_PARTS_H
#define WEFT_TRAINING_PLAN_PLANNER_INTERNAL_PARTS_H

#include "base/hash_index.h"
#include "training/plan/planner/planner.h"
#include "training/simulate/step_prices.h"
#include "training/simulate/work.h"
#include "training/train/loop/memory.h"

/* ---- what a mesh on its places decides ---- */

/** How bytes move over the data axis. */
enum place_transfer {
    PLACE_GATHER,   /**< an array is assembled on all ranks */
    PLACE_EXCHANGE, /**< each rank sends a part of its array to each other one */
    PLACE_REDUCE,   /**< an array is summed on all ranks, in place; half of it: each rank gets a part of the sum */
    PLACE_TRANSFERS
};

/** The groups of the data axis with one pipeline coordinate on one level of links. */
struct place_volume {
    double
        arrays[PLACE_TRANSFERS]; /**< arrays that enter the level's units together, at least, for one of each group */
    double units;                /**< units in which they have members */
};

struct planner_place {
    struct step_costs groups; /**< mesh, points, groups and their classes alone */
    struct step_placements tensor, data;
    uint32_t *first_rank; /**< of each pipeline rank: the first of its data and tensor ranks */
    uint64_t tensor_key;  /**< equal keys: collectives over the tensor axis have equal prices */
    double tensor_lacks;  /**< of an array that a group of the tensor axis assembles or sums, the share that has to
                            enter a host for each of its interfaces that the group uses, at least; 0: all on one host */
    struct place_volume *volumes; /**< [level x pipeline ranks + pipeline rank] */
    double units[STEP_LINK_LEVELS];
    uint32_t *levels;  /**< of a message from each pipeline rank to the next, around the end: the lowest */
    uint32_t *devices; /**< of each pipeline rank: a bit for each kind */
};

/** That of a strategy at STRATEGY_MESH or below; the planner's. Errors: MEMORY. */
weft_status planner_place_of(struct planner *planner, const struct strategy *strategy,
                             const struct planner_place **place, struct error *error);
void planner_places_free(struct planner *planner);

/** Seconds that the data axis takes at least for `bytes[transfer][pipeline rank]` on every rank: those of the level that
 * takes longest. NULL: none. */
double planner_data_seconds(const struct planner *planner, const struct planner_place *place,
                            const double *const bytes[PLACE_TRANSFERS]);

/* ---- what layers cost ---- */

/** Kinds of operations that compute: forward, backward for inputs, backward for weights. */
#define PASS_KINDS 3

/** The stages that a network is cut into, and the micro-batches that each rank of the data axis has. */
struct stage_cut {
    const struct planner_place *place; /**< NULL: for any, devices are alike */
    uint32_t stages;
    uint32_t *first_unit; /**< stages + 1 */
    uint32_t *shares;     /**< [data]: by speed; NULL: that is worth little */
};

/** The layers for one choice of passes: micro-batch, recomputation, precision, tensor and sequence axes. */
struct pass_work {
    struct model_work *work;
    double *balance; /**< [device x units + unit]: all passes without collectives, for cutting stages */
    double (*measured)[COSTS_PASSES]; /**< [unit]; NULL: not measured */
    double *costs;                    /**< [unit]: their sums, for executor_config.costs; NULL: not measured */
    double *elements;                 /**< [unit]: of weights on a rank */
    double *owned;    /**< [unit]: of its group, as it moves over the data axis; a tied table belongs to none */
    double *gathered; /**< [unit]: bytes of these as ZeRO-3 gathers them */
    double *kept;     /**< [unit]: bytes of activations from forward to backward, at least */
    double flops, chain_flops; /**< of all passes of all layers; of forward and for inputs: one micro-batch's way */
    double message_bytes;      /**< of the smallest message between stages */
    struct stage_cut *cuts;
    size_t cut_count, cut_room;
};

/** The same with collectives on the tensor axis, for its placement. */
struct pass_table {
    struct pass_work *work;
    double (*seconds)[PASS_KINDS]; /**< [device x units + unit], at least */
    double chain;                  /**< of one micro-batch's way on the fastest device */
    double sum, unit_most;         /**< of all passes on the fastest device: of all layers, of the longest */
};

struct planner {
    struct planner_setting setting;
    struct strategy_space space;
    struct step_prices *prices;
    size_t units;
    bool is_even;          /**< all ranks compute with the first rank's kind of device */
    double near_bandwidth; /**< largest rate at which a rank receives */
    double host_bandwidth; /**< largest rate at which a host receives from others, over all its interfaces */
    double far_bandwidth;  /**< the same over one of them */
    double rates[CLUSTER_PRECISIONS], rate; /**< the largest rate of operations of a rank: in a precision, in any */
    double *summed;                         /**< [unit]: 1 if its gradients are certainly summed, otherwise 0 */
    struct model_description **divided;     /**< of rank 0 of each tensor extent; NULL: not needed yet */
    struct hash_index works, tables, places, needs;
    struct memory_kept estimates; /**< what estimates of memory share */
};

static inline uint32_t planner_device_of(const struct planner *planner, uint32_t rank)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    return cluster->device_of ? cluster->device_of[rank] : 0;
}

/** For the choices of a strategy at STRATEGY_PASSES or below. Errors: MEMORY; those of measuring. */
weft_status planner_work(struct planner *planner, const struct strategy *strategy, struct pass_work **work,
                         struct error *error);
/** `tight`: with prices of all collectives over the tensor axis. */
weft_status planner_passes(struct planner *planner, const struct strategy *strategy, bool tight,
                           const struct pass_table **table, struct error *error);
/** A number that is equal for equal choices of passes, without the placement. */
uint64_t planner_work_key(const struct planner *planner, const struct strategy *strategy);
void planner_passes_free(struct planner *planner);

/** The kind of device that each pipeline rank has, the slowest or the fastest of its data and tensor ranks:
 * devices[pipeline]. */
void planner_pipeline_devices(const struct planner *planner, const struct planner_place *place,
                              const struct pass_work *work, bool fastest, uint32_t *devices);

/** The stages of a strategy at STRATEGY_SCHEDULE or below; the planner's. */
weft_status planner_cut(struct planner *planner, const struct strategy *strategy, const struct stage_cut **cut,
                        struct error *error);

/** Whether ranks of the data axis may have unequal shares of micro-batches: by the strategy's choice (at STRATEGY_WHOLE;
 * above, in some completion). */
bool planner_may_share_unevenly(const struct planner *planner, const struct strategy *partial,
                                enum strategy_depth depth);

/** The configuration of a strategy, and its choice, with stages. `words` must live as long. */
weft_status planner_configure(struct planner *planner, const struct strategy *strategy, struct strategy_words *words,
                              struct train_config *config, struct parallel_choice *choice, struct error *error);

/** struct search_problem's. */
weft_status planner_excess(void *planner, const struct strategy *partial, enum strategy_depth depth, bool exact,
                           uint64_t *bytes, struct error *error);

#endif
