/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Stages: pieces of algorithms over messages, written once and used both as a whole schedule and inside a hierarchy.
 *
 * A stage is a collective among some ranks of the communicator (`members`), between places of this rank's buffers. All
 * ranks of a stage emit it with equal lanes and channel. Every stage uses two lanes: what it sends goes on `send_lane`,
 * what it receives on `receive_lane`, so that sends that complete only when their receive has begun never block one
 * another.
 *
 * A stage is done (its output may be read, by steps after builder_now(receive_lane)) when its part of the receive lane
 * is; its source may be overwritten when its part of the send lane is done too.
 */
#ifndef WEFT_CORE_SCHEDULE_GENERATORS_STAGE_H
#define WEFT_CORE_SCHEDULE_GENERATORS_STAGE_H

#include "core/schedule/generators/builder.h"

/** A row of pieces of data: piece q is chunk first + q (or first + index[q]) of a buffer, and part `part + q` of its
 * block. */
struct pieces {
    uint8_t buffer;
    uint32_t first;
    uint32_t part;         /**< in a schedule of 1 part, every piece is part 0 */
    const uint32_t *index; /**< NULL: consecutive */
};

struct stage {
    struct builder *builder;
    uint32_t ranks, rank;    /**< of the stage */
    uint32_t root;           /**< a rank of the stage */
    const uint32_t *members; /**< rank of the stage -> rank of the communicator; NULL: the same */
    struct pieces input, output;
    uint32_t chunks;  /**< of a stage that does not divide its data: piece 0 is this many chunks */
    uint32_t scratch; /**< first chunk of scratch that is free for the stage */
    uint32_t send_lane, receive_lane;
    uint32_t spare_lane; /**< first of HIERARCHY_LANES more, for a stage over levels */
    uint8_t channel;
    bool finishes;       /**< sums made here are final */
    struct moment ready; /**< the input may be read; scratch, and an output in scratch, may be written */
};

/** The stage that is a whole schedule: all ranks, INPUT to OUTPUT, lanes 0 and 1, channel 0, finishing. */
struct stage stage_whole(struct builder *builder);

/** Add a message or a local step about `chunks` consecutive pieces from `piece` on; return the moment it is complete.
 */
struct moment stage_send(const struct stage *stage, struct moment after, uint32_t peer, const struct pieces *from,
                         uint32_t piece, uint32_t chunks);
struct moment stage_receive(const struct stage *stage, struct moment after, uint32_t peer, const struct pieces *into,
                            uint32_t piece, uint32_t chunks);
struct moment stage_receive_reduce(const struct stage *stage, struct moment after, uint32_t peer,
                                   const struct pieces *from, const struct pieces *into, uint32_t piece,
                                   uint32_t chunks, unsigned flags);
struct moment stage_copy(const struct stage *stage, uint32_t lane, struct moment after, const struct pieces *from,
                         uint32_t from_piece, const struct pieces *into, uint32_t into_piece, uint32_t chunks);

/** The chunk that piece `piece` is, and the part number that the schedule gives to it. */
uint32_t stage_chunk(const struct pieces *pieces, uint32_t piece);
uint32_t stage_part(const struct stage *stage, const struct pieces *pieces, uint32_t piece);

/** The largest power of two below n (n at least 2): where the canonical tree T(lo, n) splits. */
uint32_t tree_split(uint32_t n);

/** INPUT (pieces, or the whole) to OUTPUT for a stage of one rank. */
void stage_alone(const struct stage *stage, uint32_t chunks);

/* Each divides the data into as many pieces as the stage has ranks. */

/** Piece q of everybody's input meets at rank q, summed in the canonical order into `into`'s piece `piece`; scratch:
 * `ranks` chunks. */
void stage_pairwise_reduce_scatter(const struct stage *stage, const struct pieces *into, uint32_t piece);
/** Everybody's own piece of `output` goes to everybody; begins after `own`. */
void stage_pairwise_allgather(const struct stage *stage, struct moment own);
/** The same result, sums in the order of the ring; on the way they are kept in scratch (2 chunks). */
/** Everybody's own piece of `output` goes round the ring; begins after `own`. */
void stage_ring_allgather(const struct stage *stage, struct moment own);
/** Both in place of the output; no scratch. */
void stage_ring_allreduce(const struct stage *stage);

/* Each works on all of the data (`chunks`). */

/** Recursive doubling: an all-reduce in logarithmically many rounds, canonical for any number of ranks; scratch: 2 x
 * chunks. */
void stage_recursive_doubling(const struct stage *stage);
/** Everything to everybody, who sums it: an all-reduce in one round, canonical; scratch: `ranks` chunks; of 1 chunk. */
void stage_one_shot(const struct stage *stage);
/** To the root along the canonical tree; scratch: chunks. */
void stage_binomial_reduce(const struct stage *stage);
/** From the root's output to everybody's output; the root begins after `ready`. */
void stage_binomial_broadcast(const struct stage *stage);
/** The same, from each to the next: for long messages in many segments. */
void stage_chain_broadcast(const struct stage *stage);
/** Nobody is through before all have begun (D. Hensgen, R. Finkel, U. Manber, 1988). */
void stage_dissemination(const struct stage *stage);

/* Over the levels of the shape: rank r of the stage is its node r, and all nodes take part (see hierarchy.c). Least
 * bytes cross between units of every level. */

/** Lanes that such a stage uses from `spare_lane` on. */
#define HIERARCHY_LANES (4 * SHAPE_LEVELS + 2)

/** Pieces that stage_hierarchy_allreduce() divides its data into. */
uint32_t hierarchy_parts(const struct schedule_shape *shape);
/** Whether at every level all groups are of one size. */
bool hierarchy_is_even(const struct schedule_shape *shape);
/** hierarchy_parts() pieces, as stage_pairwise_reduce_scatter() and -allgather() one after the other, level by level;
 * canonical where units are subtrees. Scratch: up to twice as many pieces. */
void stage_hierarchy_allreduce(const struct stage *stage);
/** As stage_pairwise_reduce_scatter(stage, &stage->output, 0); even hierarchies only. Scratch: some more than the
 * stage has ranks. */
void stage_hierarchy_reduce_scatter(const struct stage *stage);
/** As stage_pairwise_allgather(); even hierarchies only. */
void stage_hierarchy_allgather(const struct stage *stage, struct moment own);
/** As their namesakes, along a tree of one head a unit. */
void stage_hierarchy_broadcast(const struct stage *stage);
void stage_hierarchy_broadcast_chain(const struct stage *stage);
void stage_hierarchy_reduce(const struct stage *stage);

#endif
