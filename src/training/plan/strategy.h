/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Strategies: ways to spread a training step over a cluster, priced, best first.
 *
 * Today a strategy is data parallelism over some of the ranks, with a size of micro-batch and a size of gradient
 * bucket. Its time is predicted from the actual operations: the micro-batches of a rank, the buckets in the order in which
 * the backward pass makes them ready, and for each bucket the simulated time of its all-reduce's plan:
 *
 *     a rank's compute     = micro-batches x time of one (measured), slower where ranks outnumber cores
 *     bucket i is ready    at the i-th share of the last backward pass (two thirds of a micro-batch's time)
 *     bucket i is reduced  after it is ready and bucket i - 1 is reduced, in its all-reduce's time
 *     a step               = compute, the part of the last bucket that outlasts it, and the optimizer
 */
#ifndef WEFT_TRAINING_PLAN_STRATEGY_H
#define WEFT_TRAINING_PLAN_STRATEGY_H

#include "training/model/model.h"
#include "training/plan/cluster.h"

/** The model and the cluster to plan for. */
struct strategy_problem {
    const struct model_description *description;
    uint32_t batch;    /**< sequences in a global batch */
    uint32_t sequence; /**< tokens in a sequence */
    const struct cluster *cluster;
    /** Seconds of forward and backward of one micro-batch of `sequences` sequences on a rank that has a core to itself.
     */
    double (*compute)(void *context, uint32_t sequences);
    void *context;
    double update_seconds; /**< of clipping and the optimizer */
};

struct strategy {
    uint32_t ranks, nodes;
    uint32_t micro_batch; /**< sequences */
    uint32_t share;       /**< micro-batches of a rank; some ranks may have one fewer */
    uint64_t bucket_bytes;
    uint32_t buckets;
    const char *algorithm; /**< of a bucket's all-reduce */
    double compute_seconds;
    double communication_seconds; /**< of all buckets, hidden or not */
    double exposed_seconds;       /**< that compute does not hide */
    double step_seconds;
    uint64_t node_bytes; /**< memory that the ranks of one node take */
    bool fits;           /**< in the node's memory */
};

/**
 * Predict every strategy's step time. *strategies (the caller frees it) is sorted: those that fit into memory first,
 * then by step time, then by number of ranks. Errors: ARGUMENT if there is no strategy at all.
 */
weft_status strategy_search(const struct strategy_problem *problem, struct strategy **strategies, size_t *count,
                            struct error *error);

/** Speed-up of `strategy` over the best one on a single rank, among `count`. */
double strategy_speedup(const struct strategy *strategies, size_t count, const struct strategy *strategy);

#endif
