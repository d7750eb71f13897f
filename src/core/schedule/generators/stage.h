/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Stages: parts of message-based algorithms, written once and used both as a whole schedule and inside a hierarchy.
 *
 * A stage is a collective among some ranks of the communicator (`members`), between regions of this rank's buffers. All
 * ranks of a stage emit it with the same lanes and channel. Every stage uses two lanes: sends are on `send_lane`,
 * receives on `receive_lane`, so that sends that complete only when their receive has begun cannot block each other.
 *
 * A stage's output may be read by steps after builder_now(receive_lane). Its source may be overwritten when its steps
 * on the send lane are done too.
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
    bool finishes;           /**< sums made here are final */
    struct dependency ready; /**< the input may be read; scratch, and an output in scratch, may be written */
};

/** The stage that is a whole schedule: all ranks, INPUT to OUTPUT, lanes 0 and 1, channel 0, finishing. */
struct stage stage_whole(struct builder *builder);

/**
 * Add a message or a local step for `chunks` consecutive pieces from `piece` on; return the dependency on its
 * completion.
 */
struct dependency stage_send(const struct stage *stage, struct dependency after, uint32_t peer,
                             const struct pieces *from, uint32_t piece, uint32_t chunks);
struct dependency stage_receive(const struct stage *stage, struct dependency after, uint32_t peer,
                                const struct pieces *into, uint32_t piece, uint32_t chunks);
struct dependency stage_receive_reduce(const struct stage *stage, struct dependency after, uint32_t peer,
                                       const struct pieces *from, const struct pieces *into, uint32_t piece,
                                       uint32_t chunks, unsigned flags);
struct dependency stage_copy(const struct stage *stage, uint32_t lane, struct dependency after,
                             const struct pieces *from, uint32_t from_piece, const struct pieces *into,
                             uint32_t into_piece, uint32_t chunks);

/** The chunk that piece `piece` is, and the part number that the schedule gives to it. */
uint32_t stage_chunk(const struct pieces *pieces, uint32_t piece);
uint32_t stage_part(const struct stage *stage, const struct pieces *pieces, uint32_t piece);

/** The largest power of two below n (n at least 2): where the canonical tree T(lo, n) splits. */
uint32_t tree_split(uint32_t n);

/** INPUT (pieces, or the whole) to OUTPUT for a stage of one rank. */
void stage_alone(const struct stage *stage, uint32_t chunks);

/* Each divides the data into as many pieces as the stage has ranks. */

/**
 * Piece q of all inputs is summed at rank q in the canonical order into `into`'s piece `piece`; scratch: `ranks`
 * chunks.
 */
void stage_pairwise_reduce_scatter(const struct stage *stage, const struct pieces *into, uint32_t piece);
/** Every rank's own piece of `output` is sent to all; begins after `own`. */
void stage_pairwise_allgather(const struct stage *stage, struct dependency own);
/** The same result, but sums in ring order; partial sums are kept in scratch (2 chunks). */
/** Every rank's own piece of `output` travels around the ring; begins after `own`. */
void stage_ring_allgather(const struct stage *stage, struct dependency own);
/** Both in place of the output; no scratch. */
void stage_ring_allreduce(const struct stage *stage);

/* Each works on all of the data (`chunks`). */

/** Recursive doubling: an all-reduce in logarithmically many rounds, canonical for any number of ranks; scratch: 2 x
 * chunks. */
void stage_recursive_doubling(const struct stage *stage);
/** All to all, each sums: an all-reduce in one round, canonical; scratch: `ranks` chunks; of 1 chunk. */
void stage_one_shot(const struct stage *stage);
/** To the root along the canonical tree; scratch: chunks. */
void stage_binomial_reduce(const struct stage *stage);
/** From the root's output to all outputs; the root begins after `ready`. */
void stage_binomial_broadcast(const struct stage *stage);
/** The same, from each to the next: for long messages in many segments. */
void stage_chain_broadcast(const struct stage *stage);
/** A barrier: no rank is done before all have begun (D. Hensgen, R. Finkel, U. Manber, 1988). */
void stage_dissemination(const struct stage *stage);

/*
 * Over the levels of the shape: rank r of the stage is its node r, and all nodes take part (see hierarchy.c). The
 * fewest bytes cross between the units of every level.
 */

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
void stage_hierarchy_allgather(const struct stage *stage, struct dependency own);
/** Like the functions of the same names, along a tree of one head per unit. */
void stage_hierarchy_broadcast(const struct stage *stage);
void stage_hierarchy_broadcast_chain(const struct stage *stage);
void stage_hierarchy_reduce(const struct stage *stage);

#endif
