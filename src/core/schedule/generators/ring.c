/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings: every rank sends only to the next and receives only from the previous one. Each link carries the fewest
 * possible bytes, but the sum of a piece begins wherever its path begins: not the canonical order.
 */
#include "core/schedule/generators/internal/generators.h"

static const struct dependency now = {0};

/* A number of the ring, `back` before `rank`. */
static uint32_t ring_before(uint32_t rank, uint32_t back, uint32_t n)
{
    return (rank + 2 * n - back) % n;
}

static void stage_ring_reduce_scatter(const struct stage *stage, const struct pieces *into, uint32_t piece)
{
    struct builder *builder = stage->builder;
    uint32_t n = stage->ranks, me = stage->rank, next = (me + 1) % n, previous = ring_before(me, 1, n);
    builder_scratch(builder, stage->scratch + 2);
    struct dependency received = stage->ready;
    struct pieces sums[2];
    builder_hold(builder, stage->receive_lane, builder_all(stage->send_lane, builder->schedule->slots));
    for (uint32_t k = 0; k + 1 < n; k++) {
        /* The last round's sum is sent while the next piece is summed into the other half of scratch. */
        uint32_t outgoing = ring_before(me, k + 1, n), incoming = ring_before(me, k + 2, n);
        if (k == 0)
            stage_send(stage, received, next, &stage->input, outgoing, 1);
        else
            stage_send(stage, received, next, &sums[(k + 1) % 2], 0, 1);
        sums[k % 2] =
            (struct pieces){BUFFER_SCRATCH, stage->scratch + k % 2, stage_part(stage, &stage->input, incoming), NULL};
        struct dependency sent = builder_now(builder, stage->send_lane);
        sent.steps--; /* the send of two rounds ago has left the half that is written now */
        bool last = k + 2 == n;
        struct pieces from = stage->input;
        received = builder_add_after(builder, stage->receive_lane, k == 0 ? stage->ready : sent,
                                     (struct step){.kind = STEP_RECEIVE_REDUCE,
                                                   .flags = last && stage->finishes ? STEP_FINISHES : 0,
                                                   .source = from.buffer,
                                                   .source_chunk = stage_chunk(&from, incoming),
                                                   .target = last ? into->buffer : BUFFER_SCRATCH,
                                                   .target_chunk = last ? stage_chunk(into, piece) : sums[k % 2].first,
                                                   .chunks = 1,
                                                   .value = sums[k % 2].part,
                                                   .channel = stage->channel,
                                                   .peer = stage->members ? stage->members[previous] : previous});
    }
}

void stage_ring_allgather(const struct stage *stage, struct dependency own)
{
    struct builder *builder = stage->builder;
    uint32_t n = stage->ranks, me = stage->rank, next = (me + 1) % n, previous = ring_before(me, 1, n);
    struct dependency received = own, sent = builder_now(builder, stage->send_lane);
    for (uint32_t k = 0; k + 1 < n; k++) {
        stage_send(stage, received, next, &stage->output, ring_before(me, k, n), 1);
        received = stage_receive(stage, k == 0 ? sent : now, previous, &stage->output, ring_before(me, k + 1, n), 1);
    }
}

void stage_ring_allreduce(const struct stage *stage)
{
    uint32_t n = stage->ranks, me = stage->rank, next = (me + 1) % n, previous = ring_before(me, 1, n);
    struct dependency received = stage->ready;
    for (uint32_t k = 0; k + 1 < n; k++) {
        uint32_t outgoing = ring_before(me, k + 1, n), incoming = ring_before(me, k + 2, n);
        stage_send(stage, received, next, k == 0 ? &stage->input : &stage->output, outgoing, 1);
        received = stage_receive_reduce(stage, k == 0 ? stage->ready : now, previous, &stage->input, &stage->output,
                                        incoming, 1, k + 2 == n && stage->finishes ? STEP_FINISHES : 0);
    }
    stage_ring_allgather(stage, received);
}

void write_ring_allreduce(struct builder *builder)
{
    builder->schedule->parts = builder->schedule->ranks;
    builder_segment(builder, MESSAGE_SEGMENT * builder->schedule->ranks, 1);
    struct stage stage = stage_whole(builder);
    stage_ring_allreduce(&stage);
}

void write_ring_reduce_scatter(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 2);
    struct stage stage = stage_whole(builder);
    stage_ring_reduce_scatter(&stage, &stage.output, 0);
}

void write_ring_allgather(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 1);
    struct stage stage = stage_whole(builder);
    struct dependency own = stage_copy(&stage, stage.receive_lane, now, &stage.input, 0, &stage.output, stage.rank, 1);
    stage_ring_allgather(&stage, own);
}
