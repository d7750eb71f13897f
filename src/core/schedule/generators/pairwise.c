/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairwise exchange: in round k every rank sends to the rank k above and receives from the rank k below. Every byte
 * crosses once; sums are made by the owner of a piece, from all contributions at once, in the canonical order.
 * (One-shot, for tiny messages: every rank sends its whole input to all others and owns all pieces.)
 */
#include "core/schedule/generators/internal/generators.h"

static const struct dependency now = {0};

/* All contributions to `piece` into scratch, in rank order; this rank's own is copied there. */
static void receive_contributions(const struct stage *stage, uint32_t piece, uint32_t part)
{
    uint32_t n = stage->ranks, me = stage->rank;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = (me + n - k) % n;
        struct pieces contribution = {.buffer = BUFFER_SCRATCH, .first = stage->scratch + from, .part = part};
        if (k == 0)
            stage_copy(stage, stage->receive_lane, stage->ready, &stage->input, piece, &contribution, 0, 1);
        else
            stage_receive(stage, now, from, &contribution, 0, 1);
    }
}

/* Their sum. */
static void sum_contributions(const struct stage *stage, uint32_t part, const struct pieces *into, uint32_t piece)
{
    builder_add(stage->builder, stage->receive_lane,
                (struct step){.kind = STEP_REDUCE,
                              .flags = stage->finishes ? STEP_FINISHES : 0,
                              .source = BUFFER_SCRATCH,
                              .source_chunk = stage->scratch,
                              .operands = (uint16_t)stage->ranks,
                              .stride = 1,
                              .chunks = 1,
                              .value = part,
                              .target = into->buffer,
                              .target_chunk = stage_chunk(into, piece)});
}

void stage_pairwise_reduce_scatter(const struct stage *stage, const struct pieces *into, uint32_t piece)
{
    struct builder *builder = stage->builder;
    uint32_t n = stage->ranks, me = stage->rank;
    builder_scratch(builder, stage->scratch + n);

    for (uint32_t k = 1; k < n; k++)
        stage_send(stage, k == 1 ? stage->ready : now, (me + k) % n, &stage->input, (me + k) % n, 1);

    /* Contributions lie in rank order; all of them belong to this rank's own piece. */
    uint32_t part = stage_part(stage, &stage->input, me);
    receive_contributions(stage, me, part);
    sum_contributions(stage, part, into, piece);
}

void stage_pairwise_allgather(const struct stage *stage, struct dependency own)
{
    uint32_t n = stage->ranks, me = stage->rank;
    struct dependency sent = builder_now(stage->builder, stage->send_lane); /* in place, it read what is received
                                                                               next */
    for (uint32_t k = 1; k < n; k++)
        stage_send(stage, k == 1 ? own : now, (me + k) % n, &stage->output, me, 1);
    for (uint32_t k = 1; k < n; k++)
        stage_receive(stage, k == 1 ? sent : now, (me + n - k) % n, &stage->output, (me + n - k) % n, 1);
}

/* Contributions lie in rank order; that of this rank may be in its place already. */
void stage_one_shot(const struct stage *stage)
{
    struct builder *builder = stage->builder;
    uint32_t n = stage->ranks, me = stage->rank;
    builder_scratch(builder, stage->scratch + n);
    for (uint32_t k = 1; k < n; k++)
        stage_send(stage, k == 1 ? stage->ready : now, (me + k) % n, &stage->input, 0, 1);
    receive_contributions(stage, 0, stage->input.part);
    builder_hold(builder, stage->receive_lane,
                 builder_now(builder, stage->send_lane)); /* in place, it is what is sent */
    sum_contributions(stage, stage_part(stage, &stage->input, 0), &stage->output, 0);
}

void write_one_shot(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    builder->schedule->most_block_bytes = ONE_SHOT_BYTES;
    stage_one_shot(&stage);
}

void write_pairwise_allreduce(struct builder *builder)
{
    builder->schedule->parts = builder->schedule->ranks;
    builder_segment(builder, MESSAGE_SEGMENT * builder->schedule->ranks, 1);
    struct stage stage = stage_whole(builder);
    stage_pairwise_reduce_scatter(&stage, &stage.output, stage.rank);
    stage_pairwise_allgather(&stage, builder_now(builder, stage.receive_lane));
}

void write_pairwise_reduce_scatter(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 1);
    struct stage stage = stage_whole(builder);
    stage_pairwise_reduce_scatter(&stage, &stage.output, 0);
}

void write_pairwise_reduce(struct builder *builder)
{
    builder->schedule->parts = builder->schedule->ranks;
    builder_segment(builder, MESSAGE_SEGMENT * builder->schedule->ranks, 2);
    struct stage stage = stage_whole(builder);
    uint32_t n = stage.ranks, me = stage.rank;
    if (me == stage.root) {
        stage_pairwise_reduce_scatter(&stage, &stage.output, me);
        struct dependency sent = builder_now(builder, stage.send_lane); /* in place, it read what is received next */
        for (uint32_t k = 1; k < n; k++)
            stage_receive(&stage, k == 1 ? sent : now, (me + n - k) % n, &stage.output, (me + n - k) % n, 1);
        return;
    }
    struct pieces sum = {.buffer = BUFFER_SCRATCH, .first = n, .part = me};
    builder_scratch(builder, n + 1);
    builder_hold(builder, stage.receive_lane, builder_all(stage.send_lane, builder->schedule->slots));
    stage_pairwise_reduce_scatter(&stage, &sum, 0);
    stage_send(&stage, builder_now(builder, stage.receive_lane), stage.root, &sum, 0, 1);
}

void write_pairwise_allgather(struct builder *builder)
{
    if (builder->schedule->collective != COLLECTIVE_ALLGATHERV)
        builder_segment(builder, MESSAGE_SEGMENT, 1);
    struct stage stage = stage_whole(builder);
    stage_copy(&stage, stage.receive_lane, now, &stage.input, 0, &stage.output, stage.rank, 1);
    stage_pairwise_allgather(&stage, builder_now(builder, stage.receive_lane));
}

/* In place, block q must be on its way before block q from rank q can take its place: it lands in scratch first. */
void write_pairwise_alltoall(struct builder *builder)
{
    bool in_place = builder->shape->in_place && builder->schedule->collective == COLLECTIVE_ALLTOALL;
    if (builder->schedule->collective == COLLECTIVE_ALLTOALL)
        builder_segment(builder, MESSAGE_SEGMENT, 1);
    struct stage stage = stage_whole(builder);
    uint32_t n = stage.ranks, me = stage.rank;
    struct pieces landing = {.buffer = BUFFER_SCRATCH};
    if (in_place)
        builder_scratch(builder, n);
    for (uint32_t k = 1; k < n; k++)
        stage_send(&stage, now, (me + k) % n, &stage.input, (me + k) % n, 1);
    if (!in_place)
        stage_copy(&stage, stage.receive_lane, now, &stage.input, me, &stage.output, me, 1);
    for (uint32_t k = 1; k < n; k++)
        stage_receive(&stage, now, (me + n - k) % n, in_place ? &landing : &stage.output, (me + n - k) % n, 1);
    if (!in_place)
        return;
    for (uint32_t k = 1; k < n; k++)
        stage_copy(&stage, stage.receive_lane, builder_now(builder, stage.send_lane), &landing, (me + n - k) % n,
                   &stage.output, (me + n - k) % n, 1);
}
