/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The planner: the best strategy for a model on a cluster.
 *
 * A strategy's price is a simulated step (training/simulate/step_simulate.h), its memory that of the executor
 * (training/parallel/execute/memory.h), its stages are balanced by the costs of its layers. Where devices differ, stages are
 * balanced by their speed. Under ZeRO-0 and 1 so may be the micro-batches of the ranks of the data axis, where that makes the
 * passes 5 % shorter: equal shares, whose sums take fewer bytes, are another strategy. The search (search.h) prices what admissible bounds do not exclude. They are, with R rounds of micro-batches on a rank:
 *
 *     quick   R x operations of a micro-batch / (pipeline ranks x peak x share), or one micro-batch's way forth and back
 *     close   for each pipeline rank: the first micro-batch's way to it, R times its own passes, the last one's way back;
 *             under 1F1B the ways forth and back that follow one another; or the time before the first reduction and the
 *             bytes of the data axis over the level of links that takes longest, as far as they have to cross it with this
 *             placement; then the longest update. Passes include collectives over the tensor axis: at their price where
 *             its groups are on one host
 *     tight   the same with all collectives over the tensor axis at their price, and those of one group of the data axis
 *
 * A planner belongs to one thread.
 */
#ifndef WEFT_TRAINING_PLAN_PLANNER_PLANNER_H
#define WEFT_TRAINING_PLAN_PLANNER_PLANNER_H

#include "training/parallel/execute/costs.h"
#include "training/plan/planner/cluster_ranks.h"
#include "training/plan/search.h"
#include "training/simulate/implementation.h"
#include "training/train/state/config.h"

/** What to plan for. All members are borrowed. */
struct planner_setting {
    const struct model_description *description; /**< of the whole network, rules applied */
    /** Batch, sequence, optimizer, type of gradients, dropout and the like. What strategies choose is ignored. */
    const struct train_config *config;
    const struct planner_cluster *cluster;
    struct strategy_space
        space; /**< ranks and precisions; 0 ranks_least: all of the cluster, and the rest is filled in */

    /**
     * Seconds of the passes of each layer of the whole network for a micro-batch of this strategy, without recomputation,
     * on a rank of its tensor axis; NULL: computed from the layers' work and the devices.
     */
    weft_status (*measure)(void *context, const struct strategy *strategy, double (*seconds)[COSTS_PASSES],
                           struct error *error);
    void *context;

    uint64_t prices_most; /**< 0: as many as it takes to prove the best */
    double gap;           /**< of struct search_problem */
};

struct planner;

/** Errors: ARGUMENT if model, batch, sequence and cluster do not go together; MEMORY. */
weft_status planner_open(const struct planner_setting *setting, struct planner **planner, struct error *error);
void planner_close(struct planner *planner);

const struct strategy_space *planner_space(const struct planner *planner);

/** Search. Errors: those of search_run(). */
weft_status planner_search(struct planner *planner, struct search_result *result, struct error *error);

/** Price one strategy of the space. */
weft_status planner_price(struct planner *planner, const struct strategy *strategy, struct price *price,
                          struct error *error);

/** A bound as the search uses it: no completion of `partial` takes less. */
weft_status planner_bound(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                          enum search_effort effort, double *seconds, struct error *error);

/** Bytes that the fullest device (or host, where devices share its memory) needs, and that it has. */
weft_status planner_memory(struct planner *planner, const struct strategy *strategy, uint64_t *needed,
                           uint64_t *available, struct error *error);

/**
 * Whether the same strategy fits with less recomputation, which only makes room: then this one is not chosen, even where
 * its stages, which are balanced with what they repeat, happen to be better.
 */
weft_status planner_recomputes_needlessly(struct planner *planner, const struct strategy *strategy, bool *needless,
                                          struct error *error);

/** The first unit of each stage, and their number after them: stages x pipeline + 1 numbers, the caller's to free(). */
weft_status planner_stages(struct planner *planner, const struct strategy *strategy, uint32_t **first_unit,
                           struct error *error);

/** The micro-batches of each rank of the data axis, the caller's to free(); NULL where they differ by at most one: also with
 * shares by speed, if the passes would not become 5 % shorter. */
weft_status planner_shares(struct planner *planner, const struct strategy *strategy, uint32_t **shares,
                           struct error *error);

/** The timeline of a step: its schedules and times, for step_draw(). step_costs_free(), step_result_free(). */
weft_status planner_simulate(struct planner *planner, const struct strategy *strategy, bool keep_times,
                             struct step_costs *costs, struct step_result *result, struct error *error);

#endif
