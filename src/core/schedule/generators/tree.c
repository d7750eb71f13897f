/* SPDX-License-Identifier: Apache-2.0 */
/* Trees: binomial ones, which follow the canonical order; chains; and two binary ones that share the load. */
#include "core/schedule/generators/internal/generators.h"

static const struct dependency now = {0};

/* ---- binomial ---- */

struct climb {
    const struct stage *stage;
    struct pieces value, sum; /* where the running value is; where sums go */
    uint32_t receives, made;  /* of all; so far */
    bool dry;                 /* only count the receives */
};

/* The rank where the sum of [lo, lo + n) is made: the root if it is one of them. */
static uint32_t owner_of(uint32_t lo, uint32_t n, uint32_t root)
{
    return root >= lo && root < lo + n ? root : lo;
}

static void climb_over(struct climb *climb, uint32_t lo, uint32_t n)
{
    const struct stage *stage = climb->stage;
    if (n == 1)
        return;
    uint32_t me = stage->rank, half = tree_split(n);
    if (me < lo + half)
        climb_over(climb, lo, half);
    else
        climb_over(climb, lo + half, n - half);
    uint32_t left = owner_of(lo, half, stage->root), right = owner_of(lo + half, n - half, stage->root);
    uint32_t owner = owner_of(lo, n, stage->root), giver = owner == left ? right : left;
    if (me == owner) {
        climb->made++;
        if (climb->dry)
            return;
        bool last = n == stage->ranks;
        stage_receive_reduce(
            stage, climb->made == 1 ? stage->ready : now, giver, &climb->value, &climb->sum, 0, stage->chunks,
            (giver == left ? STEP_RECEIVED_FIRST : 0u) | (last && stage->finishes ? STEP_FINISHES : 0u));
        climb->value = climb->sum;
    } else if (me == giver && !climb->dry) {
        stage_send(stage, climb->made ? builder_now(stage->builder, stage->receive_lane) : stage->ready, owner,
                   &climb->value, 0, stage->chunks);
    }
}

void stage_binomial_reduce(const struct stage *stage)
{
    struct builder *builder = stage->builder;
    if (stage->ranks == 1) {
        stage_alone(stage, stage->chunks);
        return;
    }
    struct climb count = {.stage = stage, .dry = true};
    climb_over(&count, 0, stage->ranks);
    struct climb climb = {.stage = stage, .value = stage->input, .sum = stage->output};
    if (stage->rank != stage->root && count.made) {
        builder_scratch(builder, stage->scratch + stage->chunks);
        builder_hold(builder, stage->receive_lane, builder_all(stage->send_lane, builder->schedule->slots));
        climb.sum = (struct pieces){.buffer = BUFFER_SCRATCH, .first = stage->scratch, .part = stage->input.part};
    }
    climb_over(&climb, 0, stage->ranks);
}

void stage_binomial_broadcast(const struct stage *stage)
{
    uint32_t n = stage->ranks, distance = 1;
    uint32_t me = (stage->rank + n - stage->root) % n; /* as if the root were 0 */
    struct dependency have = stage->ready;
    while (distance < n && !(me & distance))
        distance *= 2;
    if (me) {
        have = stage_receive(stage, stage->ready, (me - distance + stage->root) % n, &stage->output, 0, stage->chunks);
    }
    for (distance /= 2; distance; distance /= 2)
        if (me + distance < n)
            stage_send(stage, have, (me + distance + stage->root) % n, &stage->output, 0, stage->chunks);
}

/*
 * A tree without branches: every rank sends once, so that a long message in many segments takes little more time than
 * between two ranks.
 */
void stage_chain_broadcast(const struct stage *stage)
{
    uint32_t n = stage->ranks, me = (stage->rank + n - stage->root) % n; /* as if the root were 0 */
    struct dependency have = stage->ready;
    if (me)
        have = stage_receive(stage, stage->ready, (stage->rank + n - 1) % n, &stage->output, 0, stage->chunks);
    if (me + 1 < n)
        stage_send(stage, have, (stage->rank + 1) % n, &stage->output, 0, stage->chunks);
}

void write_chain_broadcast(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 1);
    struct stage stage = stage_whole(builder);
    stage_chain_broadcast(&stage);
}

void write_binomial_reduce(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 2);
    struct stage stage = stage_whole(builder);
    stage_binomial_reduce(&stage);
}

void write_binomial_broadcast(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 1);
    struct stage stage = stage_whole(builder);
    stage_binomial_broadcast(&stage);
}

/* Up to rank 0 on the first two lanes, and down from it on the next two. */
void write_binomial_allreduce(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 2);
    struct stage up = stage_whole(builder);
    stage_binomial_reduce(&up);
    struct stage down = up;
    down.send_lane = 2;
    down.receive_lane = 3;
    down.channel = 1;
    /* The root has its sum when it has received all; the others, in place, may receive when they have sent. */
    down.ready = builder_now(builder, up.rank == 0 ? up.receive_lane : up.send_lane);
    stage_binomial_broadcast(&down);
}

/* ---- two binary trees ---- */

#define NO_RANK UINT32_MAX

/* One node's place in one of the two trees, in ranks of the communicator. */
struct generators_tree_node {
    uint32_t parent, children[2];
};

/*
 * The tree over m places in which place 0 is on top, and below it the inner nodes are the even places: the parent of
 * place x flips its lowest bit off and the next one on, where that exists.
 */
static struct generators_tree_node node_at(uint32_t x, uint32_t m)
{
    struct generators_tree_node node = {NO_RANK, {NO_RANK, NO_RANK}};
    uint32_t low = x & -x, reach = low / 2;
    if (x) {
        node.parent = (x ^ low) | (low << 1);
        if (node.parent >= m)
            node.parent = x ^ low;
    } else {
        for (reach = 1; reach * 2 < m; reach *= 2) {
        }
    }
    if (x && reach)
        node.children[0] = x - reach;
    while (reach && x + reach >= m)
        reach /= 2;
    if (reach)
        node.children[1] = x + reach;
    return node;
}

/*
 * The place of `seat` in tree 0 or 1 of m seats. The second tree is the first one mirrored (m even) or shifted by one
 * (m odd), so that an inner node of one tree is a leaf of the other. `back` is the inverse mapping.
 */
static uint32_t seat_place(uint32_t tree, uint32_t seat, uint32_t m, bool back)
{
    if (tree == 0)
        return seat;
    if (m % 2 == 0)
        return m - 1 - seat;
    return (seat + (back ? m - 1 : 1)) % m;
}

static struct generators_tree_node tree_node_of(uint32_t tree, uint32_t seat, uint32_t m)
{
    struct generators_tree_node node = node_at(seat_place(tree, seat, m, false), m);
    uint32_t *links[] = {&node.parent, &node.children[0], &node.children[1]};
    for (unsigned i = 0; i < 3; i++)
        if (*links[i] != NO_RANK)
            *links[i] = seat_place(tree, *links[i], m, true);
    return node;
}

/* The root feeds the tops of both trees, in which all others sit. */
void write_double_tree_broadcast(struct builder *builder)
{
    builder->schedule->parts = 2;
    builder_segment(builder, 2 * MESSAGE_SEGMENT, 1);
    uint32_t n = builder->schedule->ranks, root = builder->schedule->root, seats = n - 1;
    for (uint32_t tree = 0; tree < 2; tree++) {
        struct stage stage = stage_whole(builder);
        stage.send_lane = 2 * tree;
        stage.receive_lane = 2 * tree + 1;
        stage.channel = (uint8_t)tree;
        struct dependency have = now;
        if (stage.rank == root) {
            uint32_t top = seat_place(tree, 0, seats, true);
            stage_send(&stage, have, (root + 1 + top) % n, &stage.output, tree, 1);
            continue;
        }
        struct generators_tree_node node = tree_node_of(tree, (stage.rank + n - root - 1) % n, seats);
        uint32_t parent = node.parent == NO_RANK ? root : (root + 1 + node.parent) % n;
        have = stage_receive(&stage, now, parent, &stage.output, tree, 1);
        for (unsigned i = 0; i < 2; i++)
            if (node.children[i] != NO_RANK)
                stage_send(&stage, have, (root + 1 + node.children[i]) % n, &stage.output, tree, 1);
    }
}

/* Each tree sums its part upwards (lanes 0 and 1 of its four) and hands the total down (lanes 2 and 3). */
void write_double_tree_allreduce(struct builder *builder)
{
    builder->schedule->parts = 2;
    builder_segment(builder, 2 * MESSAGE_SEGMENT, 1);
    uint32_t n = builder->schedule->ranks;
    for (uint32_t tree = 0; tree < 2; tree++) {
        struct stage up = stage_whole(builder);
        up.send_lane = 4 * tree;
        up.receive_lane = up.send_lane + 1;
        up.channel = (uint8_t)tree;
        struct generators_tree_node node = tree_node_of(tree, up.rank, n);
        bool top = node.parent == NO_RANK;
        struct pieces value = up.input;
        struct dependency have = now;
        for (unsigned i = 0; i < 2; i++) {
            if (node.children[i] == NO_RANK)
                continue;
            bool last = top && (i == 1 || node.children[1] == NO_RANK);
            have = stage_receive_reduce(&up, now, node.children[i], &value, &up.output, tree, 1,
                                        last ? STEP_FINISHES : 0u);
            value = up.output;
        }
        struct stage down = up;
        down.send_lane = up.send_lane + 2;
        down.receive_lane = up.send_lane + 3;
        if (!top) {
            struct dependency sent = stage_send(&up, have, node.parent, &value, tree, 1);
            have = stage_receive(&down, sent, node.parent, &down.output, tree, 1);
        }
        for (unsigned i = 0; i < 2; i++)
            if (node.children[i] != NO_RANK)
                stage_send(&down, have, node.children[i], &down.output, tree, 1);
    }
}
