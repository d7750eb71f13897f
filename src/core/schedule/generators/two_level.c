/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two levels: inside a node through shared memory, between nodes by messages. Each byte crosses the network as few
 * times as possible.
 *
 * The ranks of a node that have a number (from 0) below the size of the smallest node are *owners*: each alone carries
 * its share of the data between nodes. Owners of one number on all nodes are a *column*, in which the messages of a
 * flat algorithm's stage run. Where nodes are of one size, every rank is an owner; where one node has a single rank,
 * each node has one owner, its leader.
 *
 * Every phase has a lane of its own, so that while one segment crosses the network the next is summed inside the nodes
 * and the last one is distributed. `GIVE` waits until `END` of two segments ago. A lane that awaits all ranks that give
 * may therefore reuse memory that local ranks have read and delivered.
 */
#include "core/schedule/generators/internal/generators.h"

#include <stdlib.h>

enum lane { GIVE, SUM, SEND, RECEIVE, HAND_OUT, END, SPARE };
_Static_assert(SPARE + HIERARCHY_LANES <= SCHEDULE_LANES, "levels of messages have lanes of their own");

#define NONE UINT32_MAX

/* The layout of ranks, as seen from this one. Indices are of ranks among those of their node, in rank order. */
struct two_level_levels {
    struct builder *builder;
    uint32_t nodes, node;                /* how many; this rank's */
    uint32_t local, index;               /* ranks on this node; this rank's number among them */
    uint32_t owners;                     /* on each node */
    uint32_t *mates;                     /* ranks of this node, this one too */
    uint32_t *column;                    /* the rank with this index on every node, NONE where there is none */
    uint32_t *heads;                     /* leader of each node: the root on its own, else the first rank */
    uint32_t group, owner_group, others; /* groups: all mates; owners; mates but this one */
};

static void levels_close(struct two_level_levels *levels)
{
    free(levels->mates);
    free(levels->column);
    free(levels->heads);
}

/* With at most this many owners on a node. */
static bool levels_open_with(struct two_level_levels *levels, struct builder *builder, uint32_t most_owners)
{
    const struct schedule_shape *shape = builder->shape;
    uint32_t me = builder->schedule->rank, ranks = shape->ranks;
    *levels = (struct two_level_levels){
        .builder = builder, .nodes = shape_units(shape, 0), .node = shape_node(shape, me), .owners = most_owners};
    uint32_t *sizes = calloc(ranks, sizeof *sizes), *others = malloc(ranks * sizeof *others);
    levels->mates = malloc(ranks * sizeof *levels->mates);
    levels->column = malloc(levels->nodes * sizeof *levels->column);
    levels->heads = malloc(levels->nodes * sizeof *levels->heads);
    if (!sizes || !others || !levels->mates || !levels->column || !levels->heads) {
        builder->exhausted = true;
        free(sizes);
        free(others);
        levels_close(levels);
        return false;
    }
    for (uint32_t rank = 0; rank < me; rank++)
        levels->index += shape_node(shape, rank) == levels->node;
    for (uint32_t node = 0; node < levels->nodes; node++)
        levels->column[node] = NONE;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t node = shape_node(shape, rank), index = sizes[node]++;
        if (index == 0)
            levels->heads[node] = rank;
        if (index == levels->index)
            levels->column[node] = rank;
        if (node != levels->node)
            continue;
        levels->mates[levels->local++] = rank;
        if (rank != me)
            others[count++] = rank;
    }
    levels->heads[shape_node(shape, builder->schedule->root)] = builder->schedule->root;
    for (uint32_t node = 0; node < levels->nodes; node++)
        if (sizes[node] < levels->owners)
            levels->owners = sizes[node];
    levels->group = builder_group(builder, levels->mates, levels->local);
    levels->owner_group = builder_group(builder, levels->mates, levels->owners);
    levels->others = builder_group(builder, others, count);
    free(sizes);
    free(others);
    return true;
}

static bool levels_open(struct two_level_levels *levels, struct builder *builder)
{
    return levels_open_with(levels, builder, NONE);
}

/* ---- inside nodes ---- */

static bool owns(const struct two_level_levels *levels)
{
    return levels->index < levels->owners;
}

static void signal_mates(const struct two_level_levels *levels, enum lane lane)
{
    builder_add(levels->builder, lane, (struct step){.kind = STEP_SIGNAL, .peer = levels->group});
}

/* Every lane that is awaited here makes one signal per segment. */
static void await_mates(const struct two_level_levels *levels, enum lane lane, uint32_t group, enum lane awaited)
{
    builder_add(levels->builder, lane,
                (struct step){.kind = STEP_AWAIT, .peer = group, .operands = awaited, .stride = 1, .value = 1});
}

/* This rank's staging is free again: see the top of this file. */
static void begin_giving(const struct two_level_levels *levels)
{
    builder_hold(levels->builder, GIVE, builder_all(END, levels->builder->schedule->slots));
}

static void two_level_expose(const struct two_level_levels *levels, uint32_t first, uint32_t chunks)
{
    if (chunks && levels->local > 1) /* otherwise no rank reads it */
        builder_add(levels->builder, GIVE,
                    (struct step){.kind = STEP_EXPOSE,
                                  .source = BUFFER_INPUT,
                                  .source_chunk = first,
                                  .chunks = (uint16_t)chunks,
                                  .value = first % levels->builder->schedule->parts});
}

/* Let the mates read all of the input but this owner's own share of `width` parts. */
static void two_level_give(const struct two_level_levels *levels, uint32_t width)
{
    uint32_t own = levels->index * width, parts = levels->builder->schedule->parts;
    begin_giving(levels);
    if (owns(levels)) {
        two_level_expose(levels, 0, own);
        two_level_expose(levels, own + width, parts - own - width);
    } else {
        two_level_expose(levels, 0, parts);
    }
    signal_mates(levels, GIVE);
}

/* An owner's sums may begin: all mates have given, and scratch is free of the segment that used this copy of it before.
 */
static void begin_summing(const struct two_level_levels *levels, bool hands_out)
{
    struct builder *builder = levels->builder;
    builder_hold(builder, SUM, builder_all(SEND, builder->schedule->slots));
    builder_hold(builder, SUM, builder_all(RECEIVE, builder->schedule->slots));
    if (hands_out)
        builder_hold(builder, SUM, builder_all(HAND_OUT, builder->schedule->slots));
    await_mates(levels, SUM, levels->group, GIVE);
}

/* The node's sum of chunks of input, into scratch. */
static void sum_into_scratch(const struct two_level_levels *levels, uint32_t chunk, uint32_t chunks, uint32_t scratch)
{
    builder_scratch(levels->builder, scratch + chunks);
    builder_add(levels->builder, SUM,
                (struct step){.kind = STEP_GATHER_REDUCE,
                              .peer = levels->group,
                              .source = BUFFER_INPUT,
                              .source_chunk = chunk,
                              .target = BUFFER_SCRATCH,
                              .target_chunk = scratch,
                              .chunks = (uint16_t)chunks,
                              .value = chunk % levels->builder->schedule->parts});
}

static void hand_out(const struct two_level_levels *levels, uint32_t group, uint8_t source, uint32_t chunk,
                     uint32_t target, uint32_t chunks)
{
    if (levels->builder->schedule->groups[group].count)
        builder_add(levels->builder, HAND_OUT,
                    (struct step){.kind = STEP_SPREAD,
                                  .peer = group,
                                  .source = source,
                                  .source_chunk = chunk,
                                  .target = BUFFER_OUTPUT,
                                  .target_chunk = target,
                                  .chunks = (uint16_t)chunks,
                                  .value = target % levels->builder->schedule->parts});
}

static void two_level_deliver(const struct two_level_levels *levels, uint32_t mate, uint32_t chunk, uint32_t chunks)
{
    if (levels->mates[mate] != levels->builder->schedule->rank)
        builder_add(levels->builder, END,
                    (struct step){.kind = STEP_DELIVER,
                                  .peer = levels->mates[mate],
                                  .target = BUFFER_OUTPUT,
                                  .target_chunk = chunk,
                                  .chunks = (uint16_t)chunks,
                                  .value = chunk % levels->builder->schedule->parts});
}

/* ---- columns, between nodes ---- */

/* The stage of this rank's column (or of the leaders). */
static struct stage between(const struct two_level_levels *levels, const uint32_t *members)
{
    return (struct stage){
        .builder = levels->builder,
        .ranks = levels->nodes,
        .rank = levels->node,
        .root = shape_node(levels->builder->shape, levels->builder->schedule->root),
        .members = members,
        .chunks = 1,
        .send_lane = SEND,
        .receive_lane = RECEIVE,
        .spare_lane = SPARE,
        .finishes = true,
    };
}

/* ---- all-reduce, reduce ---- */

/* Segments that make messages of a good length out of `shares` shares, unless there are segments already. */
static void segment(const struct two_level_levels *levels, uint32_t shares)
{
    if (levels->builder->schedule->segment_bytes)
        return;
    uint64_t bytes = MESSAGE_SEGMENT / 2 * shares, least = MESSAGE_SEGMENT, most = 16 * MESSAGE_SEGMENT;
    builder_segment(levels->builder, bytes < least ? least : bytes > most ? most : bytes, SCHEDULE_SLOTS);
}

/*
 * Sum all inputs: to all outputs, or (`rooted`) to the root's, where only the owners of the root's node distribute
 * results. Each owner's share has `width` parts; `cross` moves it from the beginning of scratch to the chunks after it.
 * A rank that is alone on its node has nothing to sum or to distribute there: its share goes from input to output.
 */
static void write_sum_with(struct builder *builder, uint32_t most_owners, bool rooted, uint32_t width,
                           void (*cross)(const struct stage *stage))
{
    struct two_level_levels levels;
    if (!levels_open_with(&levels, builder, most_owners))
        return;
    uint32_t me = builder->schedule->rank, root = builder->schedule->root, own = levels.index * width;
    bool alone = levels.local == 1, hands_out = !rooted || levels.node == shape_node(builder->shape, root);
    builder->schedule->parts = levels.owners * width;
    segment(&levels, builder->schedule->parts);
    two_level_give(&levels, width);
    if (owns(&levels)) {
        begin_summing(&levels, true);
        struct stage stage = between(&levels, levels.column);
        stage.chunks = width;
        if (alone) {
            stage.input = (struct pieces){.buffer = BUFFER_INPUT};
            stage.output = (struct pieces){.buffer = BUFFER_OUTPUT};
        } else {
            sum_into_scratch(&levels, own, width, 0);
            stage.input = (struct pieces){.buffer = BUFFER_SCRATCH, .first = 0, .part = own};
            stage.output = (struct pieces){.buffer = BUFFER_SCRATCH, .first = width, .part = own};
            stage.scratch = 2 * width;
        }
        stage.ready = builder_now(builder, SUM);
        builder_scratch(builder, stage.scratch);
        cross(&stage);
        builder_hold(builder, HAND_OUT, builder_now(builder, hands_out ? RECEIVE : SUM));
        if (hands_out && !alone)
            hand_out(&levels, rooted ? builder_group(builder, &root, 1) : levels.group, BUFFER_SCRATCH, width, own,
                     width);
        signal_mates(&levels, HAND_OUT);
    }
    await_mates(&levels, END, levels.owner_group, HAND_OUT);
    for (uint32_t mate = 0; (!rooted || me == root) && mate < levels.owners; mate++)
        two_level_deliver(&levels, mate, mate * width, width);
    levels_close(&levels);
}

static void write_sum(struct builder *builder, bool rooted, uint32_t width, void (*cross)(const struct stage *stage))
{
    write_sum_with(builder, NONE, rooted, width, cross);
}

static void cross_pairwise(const struct stage *stage)
{
    stage_pairwise_reduce_scatter(stage, &stage->output, stage->rank);
    stage_pairwise_allgather(stage, builder_now(stage->builder, stage->receive_lane));
}

void write_two_level_allreduce(struct builder *builder)
{
    write_sum(builder, false, shape_units(builder->shape, 0), cross_pairwise);
}

void write_two_level_allreduce_doubling(struct builder *builder)
{
    write_sum(builder, false, 1, stage_recursive_doubling);
}

/* The cost of tiny messages is their number: one leader per node sends and receives them. */
void write_two_level_allreduce_one_shot(struct builder *builder)
{
    builder->schedule->most_block_bytes = ONE_SHOT_BYTES;
    write_sum_with(builder, 1, false, 1, stage_one_shot);
}

/*
 * One leader per node, for any length: ranks of a node share its network, and perhaps too few cores, and one long
 * message uses less processor time than many short ones.
 */
void write_two_level_allreduce_leaders(struct builder *builder)
{
    write_sum_with(builder, 1, false, shape_units(builder->shape, 0), cross_pairwise);
}

void write_two_level_allreduce_leaders_doubling(struct builder *builder)
{
    write_sum_with(builder, 1, false, 1, stage_recursive_doubling);
}

void write_two_level_allreduce_ring(struct builder *builder)
{
    write_sum(builder, false, shape_units(builder->shape, 0), stage_ring_allreduce);
}

/* Levels work at the same time only on different segments: several, unless their messages become too short. */
void write_multi_level_allreduce(struct builder *builder)
{
    uint64_t least = (uint64_t)builder->shape->ranks * 4096, most = 16 * MESSAGE_SEGMENT;
    uint64_t bytes = builder->shape->block_bytes / 8 & ~(uint64_t)4095;
    bytes = bytes > most ? most : bytes;
    builder_segment(builder, bytes < least ? least : bytes, SCHEDULE_SLOTS);
    write_sum(builder, false, hierarchy_parts(builder->shape), stage_hierarchy_allreduce);
}

void write_two_level_reduce(struct builder *builder)
{
    write_sum(builder, true, 1, stage_binomial_reduce);
}

void write_multi_level_reduce(struct builder *builder)
{
    write_sum(builder, true, 1, stage_hierarchy_reduce);
}

/* ---- reduce-scatter, all-gather: nodes of one size ---- */

/* On every node, the owner with a number sums the blocks of all ranks with that number. */
static void write_reduce_scatter(struct builder *builder, void (*cross)(const struct stage *stage))
{
    struct two_level_levels levels;
    if (!levels_open(&levels, builder))
        return;
    builder_segment(builder, segment_of_many(builder->schedule->ranks, 16 * MESSAGE_SEGMENT), SCHEDULE_SLOTS);
    begin_giving(&levels);
    two_level_expose(&levels, 0, builder->schedule->input_blocks);
    signal_mates(&levels, GIVE);
    builder_hold(builder, SUM,
                 builder_now(builder, GIVE)); /* in place, the sum overwrites the block that is copied there */
    begin_summing(&levels, false);
    for (uint32_t node = 0; node < levels.nodes; node++)
        sum_into_scratch(&levels, levels.column[node], 1, node);
    signal_mates(&levels, SUM);
    struct stage stage = between(&levels, levels.column);
    stage.input = (struct pieces){.buffer = BUFFER_SCRATCH};
    stage.output = (struct pieces){.buffer = BUFFER_OUTPUT};
    stage.scratch = levels.nodes;
    stage.ready = builder_now(builder, SUM);
    cross(&stage);
    await_mates(&levels, END, levels.group, SUM);
    levels_close(&levels);
}

static void cross_pairwise_scatter(const struct stage *stage)
{
    stage_pairwise_reduce_scatter(stage, &stage->output, 0);
}

void write_two_level_reduce_scatter(struct builder *builder)
{
    write_reduce_scatter(builder, cross_pairwise_scatter);
}

void write_multi_level_reduce_scatter(struct builder *builder)
{
    write_reduce_scatter(builder, stage_hierarchy_reduce_scatter);
}

/* Blocks go to all of their column, then each owner passes its column's blocks to the ranks of its node. */
static void write_allgather(struct builder *builder, void (*cross)(const struct stage *stage, struct dependency own))
{
    struct two_level_levels levels;
    if (!levels_open(&levels, builder))
        return;
    builder_segment(builder, segment_of_many(builder->schedule->ranks, 16 * MESSAGE_SEGMENT), SCHEDULE_SLOTS);
    begin_giving(&levels);
    signal_mates(&levels, GIVE);
    struct stage stage = between(&levels, levels.column);
    stage.input = (struct pieces){.buffer = BUFFER_INPUT};
    stage.output = (struct pieces){.buffer = BUFFER_OUTPUT, .index = levels.column};
    struct dependency own =
        stage_copy(&stage, RECEIVE, (struct dependency){0}, &stage.input, 0, &stage.output, levels.node, 1);
    cross(&stage, own);
    builder_hold(builder, HAND_OUT, builder_now(builder, RECEIVE));
    await_mates(&levels, HAND_OUT, levels.group, GIVE);
    for (uint32_t node = 0; node < levels.nodes; node++)
        hand_out(&levels, levels.others, BUFFER_OUTPUT, levels.column[node], levels.column[node], 1);
    signal_mates(&levels, HAND_OUT);
    await_mates(&levels, END, levels.group, HAND_OUT);
    const struct schedule_shape *shape = builder->shape;
    uint32_t *seen = calloc(shape->ranks, sizeof *seen); /* ranks of each node so far: the next one's number */
    for (uint32_t rank = 0; seen && rank < shape->ranks; rank++)
        two_level_deliver(&levels, seen[shape_node(shape, rank)]++, rank, 1);
    builder->exhausted = builder->exhausted || !seen;
    free(seen);
    levels_close(&levels);
}

void write_two_level_allgather(struct builder *builder)
{
    write_allgather(builder, stage_ring_allgather);
}

void write_multi_level_allgather(struct builder *builder)
{
    write_allgather(builder, stage_hierarchy_allgather);
}

/* ---- broadcast, barrier: one leader a node ---- */

static void write_broadcast(struct builder *builder, void (*cross)(const struct stage *stage))
{
    struct two_level_levels levels;
    if (!levels_open(&levels, builder))
        return;
    builder_segment(builder, MESSAGE_SEGMENT, SCHEDULE_SLOTS);
    uint32_t head = levels.heads[levels.node];
    if (builder->schedule->rank != head) {
        await_mates(&levels, GIVE, builder_group(builder, &head, 1), GIVE);
        builder_add(builder, GIVE,
                    (struct step){
                        .kind = STEP_READ, .peer = head, .source = BUFFER_INPUT, .target = BUFFER_OUTPUT, .chunks = 1});
        signal_mates(&levels, GIVE);
        levels_close(&levels);
        return;
    }
    struct stage stage = between(&levels, levels.heads);
    stage.input = (struct pieces){.buffer = BUFFER_INPUT};
    stage.output = (struct pieces){.buffer = BUFFER_OUTPUT};
    cross(&stage);
    begin_giving(&levels);
    builder_hold(builder, GIVE, builder_now(builder, RECEIVE));
    two_level_expose(&levels, 0, 1);
    signal_mates(&levels, GIVE);
    await_mates(&levels, END, levels.group, GIVE);
    levels_close(&levels);
}

void write_two_level_broadcast(struct builder *builder)
{
    write_broadcast(builder, stage_binomial_broadcast);
}

void write_two_level_broadcast_chain(struct builder *builder)
{
    write_broadcast(builder, stage_chain_broadcast);
}

void write_multi_level_broadcast(struct builder *builder)
{
    write_broadcast(builder, stage_hierarchy_broadcast);
}

void write_multi_level_broadcast_chain(struct builder *builder)
{
    write_broadcast(builder, stage_hierarchy_broadcast_chain);
}

void write_two_level_barrier(struct builder *builder)
{
    struct two_level_levels levels;
    if (!levels_open(&levels, builder))
        return;
    uint32_t head = levels.heads[levels.node];
    if (builder->schedule->rank != head) {
        signal_mates(&levels, GIVE);
        await_mates(&levels, GIVE, builder_group(builder, &head, 1), GIVE);
    } else {
        await_mates(&levels, GIVE, levels.group, GIVE);
        struct stage stage = between(&levels, levels.heads);
        stage.input.buffer = BUFFER_INPUT;
        stage.output.buffer = BUFFER_OUTPUT;
        stage.ready = builder_now(builder, GIVE);
        stage_dissemination(&stage);
        builder_hold(builder, GIVE, builder_now(builder, RECEIVE));
        signal_mates(&levels, GIVE);
    }
    levels_close(&levels);
}
