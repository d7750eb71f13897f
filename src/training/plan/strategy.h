/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Strategies: the ways to train a model on a number of ranks that `weft train` can execute, and no others.
 *
 * A strategy is chosen in steps, each of which divides a set of strategies. So the set of all of them is a tree, which
 * a search walks without listing it:
 *
 *     STRATEGY_ALL       nothing is chosen
 *     STRATEGY_MESH      the ranks on each axis, and their placement: what links connect them
 *     STRATEGY_PASSES    micro-batch, recomputation (of a quarter, half, three quarters or all of the layers), precision,
 *                        sequence parallelism: what a pass of a layer costs
 *     STRATEGY_SCHEDULE  pipeline schedule and stages: when passes are computed
 *     STRATEGY_WHOLE     ZeRO stage, bucket size and, where ranks differ in speed, shares of micro-batches
 *
 * Strategies that are the same run are listed once: a pipeline of one rank has no schedule, a data axis of one rank no
 * ZeRO stage, and buckets matter only where gradients are all-reduced in place (ZeRO-0 where all ranks' micro-batches are
 * runs that are alike, see training/parallel/sharding/canonical_runs.h). Shares by speed need gradients that are kept until
 * the end of a step (ZeRO-0 and 1) and a schedule other than the interleaved one, which needs equal rounds.
 *
 * Pure functions of a space, which may be used by several threads.
 */
#ifndef WEFT_TRAINING_PLAN_STRATEGY_H
#define WEFT_TRAINING_PLAN_STRATEGY_H

#include "training/model/model.h"
#include "training/parallel/mesh/mesh.h"
#include "training/parallel/step/step.h"
#include "training/train/state/config.h"

enum strategy_depth { STRATEGY_ALL, STRATEGY_MESH, STRATEGY_PASSES, STRATEGY_SCHEDULE, STRATEGY_WHOLE };

struct strategy {
    struct mesh mesh;
    struct mesh_placement placement;
    uint32_t micro_batch; /**< sequences */
    enum model_recompute recompute;
    uint32_t recompute_layers; /**< of the layers that this means, spread evenly; 0: all */
    weft_type precision;       /**< of products and activations */
    bool sequence_parallel;
    uint32_t zero;
    enum step_pipeline schedule;
    uint32_t stages; /**< on each pipeline rank */
    uint64_t bucket_bytes;
    bool shares_by_speed; /**< faster data ranks have more micro-batches; otherwise these differ by at most one */
};

#define STRATEGY_PRECISIONS   3
#define STRATEGY_BUCKETS_MOST 8
#define STRATEGY_STAGES_MOST  64 /**< on a pipeline rank, as --stages-per-rank has it */

/** What a strategy may choose from. strategy_space_open() fills in the rest. */
struct strategy_space {
    const struct model_description *description; /**< the whole network; borrowed */
    uint32_t batch;                              /**< sequences in a global batch */
    uint32_t sequence;                           /**< tokens in a sequence */
    uint32_t ranks_least, ranks_most;            /**< numbers of ranks */
    uint32_t hosts_from; /**< ranks from which on there is more than one host, so that placement matters */
    bool even_shares;    /**< as many micro-batches for each data rank, as synchronized batch norms need them */
    bool speeds_differ;  /**< of ranks, so that shares of micro-batches by speed are a choice */
    weft_type precisions[STRATEGY_PRECISIONS];
    uint32_t precision_count;
    uint64_t buckets[STRATEGY_BUCKETS_MOST]; /**< ascending */
    uint32_t bucket_count;
    bool *tensor_divides; /**< [ranks_most + 1]: the layers can be divided over that many ranks */
};

/** Errors: ARGUMENT if batch or sequence do not fit the model; MEMORY. strategy_space_close() frees what was added. */
weft_status strategy_space_open(struct strategy_space *space, struct error *error);
void strategy_space_close(struct strategy_space *space);

struct strategy_list {
    struct strategy *items;
    size_t count, room;
};

/** Append the strategies at the next depth that complete `partial`, which is at `depth`; of STRATEGY_ALL, `partial` is
 * ignored. Errors: MEMORY. */
weft_status strategy_expand(const struct strategy_space *space, const struct strategy *partial,
                            enum strategy_depth depth, struct strategy_list *list, struct error *error);

/** The same strategy with less recomputation, by one choice. False: it recomputes nothing. */
bool strategy_recompute_less(const struct strategy_space *space, const struct strategy *strategy,
                             struct strategy *less);

/** How many whole strategies complete `partial`. */
uint64_t strategy_count(const struct strategy_space *space, const struct strategy *partial, enum strategy_depth depth);

/** The highest ZeRO stage: without a data axis there is nothing to divide. */
uint32_t strategy_zero_most(const struct strategy *partial);

/** Micro-batches of a global batch, and of the data rank that has the most. */
static inline uint32_t strategy_micro_batches(const struct strategy_space *space, const struct strategy *strategy)
{
    return space->batch / strategy->micro_batch;
}

static inline uint32_t strategy_rounds(const struct strategy_space *space, const struct strategy *strategy)
{
    const uint32_t data = strategy->mesh.extent[MESH_DATA];
    return (strategy_micro_batches(space, strategy) + data - 1) / data;
}

/** The order of strategies that are equally good: fewer ranks first, then a shorter pipeline, fewer tensor ranks, less
 * recomputation, f32 before others, a lower ZeRO stage, larger micro-batches, equal shares, and the order of
 * strategy_expand(). */
int strategy_compare(const struct strategy *a, const struct strategy *b);

#define STRATEGY_TEXT_BYTES 256

/** "data=8,pipeline=4,tensor=2; ZeRO-1; interleaved, 2 stages a rank; micro-batches of 4; bf16"; returns `text`. */
const char *strategy_describe(const struct strategy *strategy, char text[STRATEGY_TEXT_BYTES]);

/** The options of weft train that choose it, without --placement where there is one order only; returns `text`. */
const char *strategy_options(const struct strategy *strategy, char text[STRATEGY_TEXT_BYTES]);

/** Text that a configuration points to. */
struct strategy_words {
    char mesh[MESH_TEXT_BYTES], placement[MESH_TEXT_BYTES];
};

/** Have `config` train by `strategy`: all that a strategy chooses is set, nothing else. `words` is filled in and must live as
 * long as the configuration. */
void strategy_configure(const struct strategy *strategy, struct strategy_words *words, struct train_config *config);

#endif
