/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/strategy.h"

#include "training/parallel/sharding/canonical_runs.h"
#include "training/train/loop/memory.h"

#include <stdlib.h>

static const uint64_t bucket_sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

static uint32_t ranks_on_a_node(const struct strategy_problem *problem, const struct strategy *strategy)
{
    const uint32_t most = problem->cluster->ranks_per_node;
    return strategy->ranks < most ? strategy->ranks : most;
}

/* Of the node that has rank 0. */
static weft_status strategy_memory_of(const struct strategy_problem *problem, struct strategy *strategy,
                                      struct error *error)
{
    const struct train_config config = {.batch = problem->batch,
                                        .micro_batch = strategy->micro_batch,
                                        .sequence = problem->sequence,
                                        .optimizer = {.kind = OPTIMIZER_ADAMW},
                                        .gradients = WEFT_F32};
    struct parallel_choice choice;
    uint32_t *nodes = calloc(strategy->ranks, sizeof *nodes);
    uint64_t *needs = calloc(strategy->nodes, sizeof *needs);
    const struct memory_ranks ranks = {.count = strategy->ranks, .nodes = nodes};
    weft_status status = nodes && needs
                             ? parallel_choice_of(&config, problem->description, strategy->ranks, &choice, error)
                             : error_memory(error, strategy->ranks * sizeof *nodes, "the memory of a strategy");
    for (uint32_t r = 0; status == WEFT_OK && r < strategy->ranks; r++)
        nodes[r] = r / problem->cluster->ranks_per_node;
    if (status == WEFT_OK)
        status = parallel_choice_place(&config, problem->description, nodes, &choice, error);
    if (status == WEFT_OK)
        status = memory_needs_of_nodes(&config, problem->description, &choice, &ranks, needs, error);
    if (status == WEFT_OK)
        strategy->node_bytes = needs[0];
    free(needs);
    free(nodes);
    return status;
}

/* The slowdown of a rank when the ranks of its node take turns on its cores. */
static double crowding(const struct strategy_problem *problem, const struct strategy *strategy)
{
    uint32_t on_a_node = ranks_on_a_node(problem, strategy);
    uint32_t cores = problem->cluster->links.cores;
    return on_a_node > cores ? (double)on_a_node / cores : 1.0;
}

static weft_status price(const struct strategy_problem *problem, struct strategy *strategy, struct error *error)
{
    uint64_t bytes = problem->description->elements * sizeof(float);
    strategy->buckets = (uint32_t)((bytes + strategy->bucket_bytes - 1) / strategy->bucket_bytes);
    double reduce, slower = crowding(problem, strategy);
    uint64_t bucket = strategy->bucket_bytes < bytes ? strategy->bucket_bytes : bytes;
    weft_status status =
        cluster_price_allreduce(problem->cluster, strategy->ranks, bucket, &reduce, &strategy->algorithm, error);
    if (status != WEFT_OK)
        return status;
    double one = problem->compute(problem->context, strategy->micro_batch) * slower, backward = one * 2 / 3;
    double reduced = 0;
    for (uint32_t i = 1; i <= strategy->buckets; i++) {
        double ready = backward * i / strategy->buckets;
        reduced = (reduced > ready ? reduced : ready) + reduce;
    }
    strategy->compute_seconds = one * strategy->share;
    strategy->communication_seconds = strategy->ranks > 1 ? reduce * strategy->buckets : 0;
    strategy->exposed_seconds = strategy->ranks > 1 && reduced > backward ? reduced - backward : 0;
    strategy->step_seconds = strategy->compute_seconds + strategy->exposed_seconds + problem->update_seconds * slower;
    status = strategy_memory_of(problem, strategy, error);
    strategy->fits = strategy->node_bytes <= problem->cluster->node_memory;
    return status;
}

static int strategy_compare(const void *first, const void *second)
{
    const struct strategy *a = first, *b = second;
    if (a->fits != b->fits)
        return a->fits ? -1 : 1;
    if (a->step_seconds != b->step_seconds)
        return a->step_seconds < b->step_seconds ? -1 : 1;
    return (a->ranks > b->ranks) - (a->ranks < b->ranks);
}

/* All strategies on `ranks` ranks with micro-batches of `sequences`. */
static weft_status add_strategies(const struct strategy_problem *problem, uint32_t ranks, uint32_t sequences,
                                  struct strategy **list, size_t *count, size_t *room, struct error *error)
{
    const struct cluster *cluster = problem->cluster;
    struct strategy strategy = {
        .ranks = ranks,
        .nodes = (ranks + cluster->ranks_per_node - 1) / cluster->ranks_per_node,
        .micro_batch = sequences,
        .share = micro_batch_run(problem->batch / sequences, 0, ranks).count,
    };
    if (problem->batch / sequences < ranks)
        return WEFT_OK;
    uint64_t bytes = problem->description->elements * sizeof(float);
    for (size_t i = 0; i < ARRAY_SIZE(bucket_sizes); i++) {
        /* One bucket that holds everything is enough, and with one rank there is nothing to bucket. */
        if (i > 0 && (bucket_sizes[i - 1] >= bytes || ranks == 1))
            break;
        strategy.bucket_bytes = bucket_sizes[i];
        weft_status status = price(problem, &strategy, error);
        if (status == WEFT_OK)
            status = ARRAY_RESERVE(*list, *room, *count + 1, "the strategies", error);
        if (status != WEFT_OK)
            return status;
        (*list)[(*count)++] = strategy;
    }
    return WEFT_OK;
}

weft_status strategy_search(const struct strategy_problem *problem, struct strategy **strategies, size_t *count,
                            struct error *error)
{
    struct strategy *list = NULL;
    size_t length = 0, room = 0;
    weft_status status = WEFT_OK;
    uint32_t most = problem->cluster->nodes * problem->cluster->ranks_per_node;
    for (uint32_t ranks = 1; ranks <= most && status == WEFT_OK; ranks++)
        for (uint32_t sequences = 1; sequences <= problem->batch && status == WEFT_OK; sequences *= 2)
            if (problem->batch % sequences == 0)
                status = add_strategies(problem, ranks, sequences, &list, &length, &room, error);
    if (status != WEFT_OK) {
        free(list);
        return status;
    }
    qsort(list, length, sizeof *list, strategy_compare);
    *strategies = list;
    *count = length;
    return WEFT_OK;
}

double strategy_speedup(const struct strategy *strategies, size_t count, const struct strategy *strategy)
{
    double alone = 0;
    for (size_t i = 0; i < count; i++)
        if (strategies[i].ranks == 1 && (alone == 0 || strategies[i].step_seconds < alone))
            alone = strategies[i].step_seconds;
    return alone / strategy->step_seconds;
}
