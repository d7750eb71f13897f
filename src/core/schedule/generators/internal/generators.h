/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The generators that core/schedule/generators/generate.c lists: each writes the steps of builder->schedule->rank. See
 * algorithms_of().
 */
#ifndef WEFT_CORE_SCHEDULE_GENERATORS_INTERNAL_GENERATORS_H
#define WEFT_CORE_SCHEDULE_GENERATORS_INTERNAL_GENERATORS_H

#include "core/schedule/generators/stage.h"

/** Bytes of one message of a pipelined algorithm: long enough to hide a network's latency, short enough to stay in a
 * cache. */
#define MESSAGE_SEGMENT ((uint64_t)256 << 10)

/** Bytes of a block that a rank hands to local ranks at once: while they read it, it prepares the next. */
#define SHM_SEGMENT ((uint64_t)256 << 10)

/** Largest block for all-to-all sends: a message that needs no announcement. */
#define ONE_SHOT_BYTES ((uint64_t)16 << 10)

/**
 * Segment size for `blocks` blocks that are together about `bytes` long: whole pages, not very short or longer than one
 * message.
 */
static inline uint64_t segment_of_many(uint32_t blocks, uint64_t bytes)
{
    uint64_t least = 16384, each = bytes / blocks & ~(uint64_t)4095;
    return each < least ? least : each > MESSAGE_SEGMENT ? MESSAGE_SEGMENT : each;
}

void write_exchange(struct builder *builder);

void write_direct_allreduce(struct builder *builder);
void write_direct_reduce_scatter(struct builder *builder);
void write_direct_allgather(struct builder *builder); /* and allgatherv */
void write_direct_broadcast(struct builder *builder);
void write_direct_reduce(struct builder *builder);
void write_direct_alltoall(struct builder *builder);
void write_direct_gather(struct builder *builder);
void write_direct_scatter(struct builder *builder);
void write_direct_barrier(struct builder *builder);
void write_direct_scan(struct builder *builder); /* and exscan */

void write_one_shot(struct builder *builder);
void write_pairwise_allreduce(struct builder *builder);
void write_pairwise_reduce_scatter(struct builder *builder);
void write_pairwise_reduce(struct builder *builder);
void write_pairwise_allgather(struct builder *builder); /* and allgatherv */
void write_pairwise_alltoall(struct builder *builder);  /* and alltoallv */

void write_ring_allreduce(struct builder *builder);
void write_ring_reduce_scatter(struct builder *builder);
void write_ring_allgather(struct builder *builder); /* and allgatherv */

void write_doubling_scan(struct builder *builder); /* and exscan */

void write_recursive_doubling(struct builder *builder);
void write_halving_doubling(struct builder *builder);
void write_bruck(struct builder *builder);
void write_dissemination(struct builder *builder);

void write_binomial_allreduce(struct builder *builder);
void write_binomial_reduce(struct builder *builder);
void write_binomial_broadcast(struct builder *builder);
void write_chain_broadcast(struct builder *builder);
void write_double_tree_broadcast(struct builder *builder);
void write_double_tree_allreduce(struct builder *builder);

void write_two_level_allreduce(struct builder *builder);          /* pairwise exchange between nodes */
void write_two_level_allreduce_doubling(struct builder *builder); /* recursive doubling between nodes */
void write_two_level_allreduce_leaders(struct builder *builder);  /* pairwise, one leader a node */
void write_two_level_allreduce_leaders_doubling(struct builder *builder);
void write_two_level_allreduce_one_shot(struct builder *builder); /* one round among leaders */
void write_two_level_allreduce_ring(struct builder *builder);     /* a ring between nodes */
void write_two_level_reduce_scatter(struct builder *builder);
void write_two_level_allgather(struct builder *builder);
void write_two_level_broadcast(struct builder *builder);       /* a binomial tree of leaders */
void write_two_level_broadcast_chain(struct builder *builder); /* a chain of leaders */
void write_two_level_reduce(struct builder *builder);
void write_two_level_barrier(struct builder *builder);

/* The same, with leaves and pods between the nodes (hierarchy.c). */
void write_multi_level_allreduce(struct builder *builder);
void write_multi_level_reduce_scatter(struct builder *builder);
void write_multi_level_allgather(struct builder *builder);
void write_multi_level_broadcast(struct builder *builder);       /* binomial trees of heads */
void write_multi_level_broadcast_chain(struct builder *builder); /* chains of heads */
void write_multi_level_reduce(struct builder *builder);

void write_linear_gather(struct builder *builder);  /* and gatherv */
void write_linear_scatter(struct builder *builder); /* and scatterv */
void write_message(struct builder *builder);

#endif
