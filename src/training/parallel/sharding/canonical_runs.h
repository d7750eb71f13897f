/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The canonical sum of a global batch from parts: which rank computes which micro-batches, and in which order partial
 * sums are added, so that the total has the same bits for any number of ranks up to the number of micro-batches.
 *
 * The total is T(0, n): the left-full binary tree over micro-batch numbers, split at the largest power of two below n.
 * Its subtrees are *roots*: sums of 2^level micro-batches that begin at a multiple of 2^level. A list of neighboring
 * roots is kept as short as possible: the last two become one if they are siblings. After the last one of the whole
 * batch, what is left is added from right to left, which is how the tree treats an n that is not a power of two.
 *
 * Pure functions, thread-safe.
 */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_CANONICAL_RUNS_H
#define WEFT_TRAINING_PARALLEL_SHARDING_CANONICAL_RUNS_H

#include <stdbool.h>
#include <stdint.h>

/** The micro-batches of a global batch, divided over the ranks of the data axis. */
struct micro_batch_division {
    uint32_t total, ranks;  /**< as many micro-batches as ranks, at least */
    const uint32_t *counts; /**< of each rank, at least 1, `total` together; NULL: they differ by at most one */
};

/** Micro-batches first, first + stride, ... of a rank of the data axis, `count` of them. */
struct micro_batch_share {
    uint32_t first, stride, count;
};

/**
 * The share of a rank.
 *
 * In a run micro-batches are neighbors, and a rank sums its run by itself. In turns, each round of one micro-batch a rank
 * is reduced at once: for gradients that are not kept (ZeRO-2 and 3). Then shares differ by at most one.
 */
struct micro_batch_share micro_batch_run(const struct micro_batch_division *division, uint32_t rank);
struct micro_batch_share micro_batch_turns(const struct micro_batch_division *division, uint32_t rank);

/** Whether the run of every rank is one subtree, all of the same size, so that an all-reduce in the canonical order adds
 * up the totals of the ranks. */
bool micro_batch_runs_are_subtrees(const struct micro_batch_division *division);

/** Whether what the ranks have is added up in the canonical order by a reduce-scatter in that order: under ZeRO-1 the sums
 * of their runs, under ZeRO-2 and 3 the micro-batches of a round in which every rank has one. */
bool micro_batch_sums_scatter(uint32_t zero, const struct micro_batch_division *division);

/** The one that a ZeRO stage has. */
static inline struct micro_batch_share micro_batch_share_of(uint32_t zero, const struct micro_batch_division *division,
                                                            uint32_t rank)
{
    return zero >= 2 ? micro_batch_turns(division, rank) : micro_batch_run(division, rank);
}

/** The largest share of a rank: the rounds of a step. */
uint32_t micro_batch_rounds(const struct micro_batch_division *division);

#define CANONICAL_ROOTS_MOST 64

struct canonical_root {
    uint32_t level; /**< it is the sum of 2^level micro-batches */
    uint32_t start; /**< the first of them */
};

/** Neighboring roots, the last one on top. The caller has an array for each. */
struct canonical_stack {
    uint32_t depth;
    struct canonical_root roots[CANONICAL_ROOTS_MOST];
};

static inline void canonical_stack_push(struct canonical_stack *stack, struct canonical_root root)
{
    stack->roots[stack->depth++] = root;
}

/** Whether the two roots on top are siblings: the caller adds the upper array to the lower one, which then holds their
 * sum, after canonical_stack_merge(). */
bool canonical_stack_can_merge(const struct canonical_stack *stack);
void canonical_stack_merge(struct canonical_stack *stack);

/** Whether `root`, which follows those of the stack, and the one on top are siblings. */
bool canonical_stack_continues(const struct canonical_stack *stack, struct canonical_root root);

/** The roots of micro-batches first to first + count - 1, which are neighbors, after all merges. */
void canonical_stack_of_run(uint32_t first, uint32_t count, struct canonical_stack *stack);

/** The most roots that a rank has after the last micro-batch of its run. */
uint32_t canonical_roots_of_runs(const struct micro_batch_division *division);

/** The most roots that the stack has while `count` micro-batches from `first` on are pushed and merged one by one. */
uint32_t canonical_stack_room(uint32_t first, uint32_t count);

#endif
