/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans by recursive doubling. In round t each rank of a complete block of 2^t ranks has the block's sum, a subtree of
 * the canonical tree, and sends it to the rank 2^t above, whose block is the right half of the next larger one. There it
 * comes before what that rank has of its own block: the sum of the first ranks is T(0, 4) + (T(4, 2) + T(6, 1)), built
 * from the right. The larger block's own sum is made only where it is needed.
 */
#include "core/schedule/generators/internal/generators.h"

struct scan {
    struct stage stage;
    struct pieces block, sum; /* where the sum of this rank's block is, and that of the ranks up to this one in it */
    struct dependency made;   /* when `block` was complete */
    bool empty;               /* there is no sum yet: an exscan does not begin with the rank's own input */
    uint32_t scratch;         /* chunks of scratch that are still free: those below it */
};

/* A place for a value. Later ones lie below, since a sum adds a chunk to one above it. */
static struct pieces take_scratch(struct scan *scan)
{
    return (struct pieces){.buffer = BUFFER_SCRATCH, .first = --scan->scratch};
}

/*
 * Whether rank `me` needs the sum of its block of `width` ranks: to send it up, or as a part of a larger block's sum that
 * it, or the rank of the left half that it sends it down to, needs.
 */
static bool needs_block(uint32_t me, uint64_t width, uint32_t ranks)
{
    for (; width < ranks; width *= 2) {
        if (me & width)
            me -= (uint32_t)width;
        else if (me + width < ranks)
            return true;
    }
    return false;
}

/* The most chunks of scratch that a rank needs: a copy of its input, and the values of each round. */
static uint32_t most_scratch(uint32_t me, uint32_t ranks)
{
    uint32_t most = 1;
    for (uint32_t width = 1; width < ranks; width *= 2)
        most += (me & width ? 1u : 0u) + (!needs_block(me, 2 * (uint64_t)width, ranks) ? 0 : me & width ? 2u : 1u);
    return most;
}

/* into = left + right, both in scratch. */
static void add(struct scan *scan, const struct pieces *left, const struct pieces *right, const struct pieces *into,
                bool finishes)
{
    struct builder *builder = scan->stage.builder;
    /* In place, the output is an input that is being sent. */
    struct dependency after = {0};
    if (into->buffer == BUFFER_OUTPUT)
        after = builder_now(builder, scan->stage.send_lane);
    builder_add_after(builder, scan->stage.receive_lane, after,
                      (struct step){.kind = STEP_REDUCE,
                                    .flags = finishes ? STEP_FINISHES : 0,
                                    .source = left->buffer,
                                    .source_chunk = left->first,
                                    .operands = 2,
                                    .stride = (uint16_t)(right->first - left->first),
                                    .chunks = 1,
                                    .target = into->buffer,
                                    .target_chunk = into->first});
}

/* The one input that the sum is over becomes the output. */
static void end_with(struct scan *scan, const struct pieces *only)
{
    const struct stage *stage = &scan->stage;
    stage_copy(stage, stage->receive_lane, builder_now(stage->builder, stage->send_lane), only, 0, &stage->output, 0,
               1);
    builder_add(stage->builder, stage->receive_lane,
                (struct step){.kind = STEP_FINISH, .target = BUFFER_OUTPUT, .chunks = 1});
}

/* From the rank `width` below: the sum of the block to the left of this rank's. `last`: no block lies left of that. */
static void receive_from_below(struct scan *scan, uint32_t width, bool makes_block, bool last)
{
    const struct stage *stage = &scan->stage;
    struct builder *builder = stage->builder;
    const uint32_t peer = stage->rank - width;
    const struct pieces target = last ? stage->output : (struct pieces){0};
    if (!makes_block && !scan->empty) { /* it is added as it arrives */
        const struct pieces into = last ? target : take_scratch(scan);
        stage_receive_reduce(stage, last ? builder_now(builder, stage->send_lane) : (struct dependency){0}, peer,
                             &scan->sum, &into, 0, 1, STEP_RECEIVED_FIRST | (last ? STEP_FINISHES : 0u));
        scan->sum = into;
        return;
    }
    if (makes_block && (scan->block.buffer == BUFFER_INPUT || (!scan->empty && scan->sum.buffer == BUFFER_INPUT))) {
        const struct pieces copied = take_scratch(scan);
        stage_copy(stage, stage->receive_lane, (struct dependency){0}, &stage->input, 0, &copied, 0, 1);
        scan->sum = copied;
        if (scan->block.buffer == BUFFER_INPUT)
            scan->block = copied;
    }
    const struct pieces left = take_scratch(scan);
    stage_receive(stage, (struct dependency){0}, peer, &left, 0, 1);
    if (makes_block) {
        const struct pieces both = take_scratch(scan);
        add(scan, &left, &scan->block, &both, false);
        scan->made = builder_now(builder, stage->receive_lane);
        if (!last && !scan->empty && scan->sum.first == scan->block.first) { /* the same sum */
            scan->block = scan->sum = both;
            return;
        }
        scan->block = both;
    }
    if (scan->empty && last) {
        end_with(scan, &left);
    } else if (scan->empty) {
        scan->sum = left;
    } else {
        const struct pieces into = last ? target : take_scratch(scan);
        add(scan, &left, &scan->sum, &into, last);
        scan->sum = into;
    }
    scan->empty = false;
}

void write_doubling_scan(struct builder *builder)
{
    struct scan scan = {.empty = builder->schedule->collective == COLLECTIVE_EXSCAN};
    builder_segment(builder, MESSAGE_SEGMENT, 2);
    scan.stage = stage_whole(builder);
    const struct stage *stage = &scan.stage;
    const uint32_t n = stage->ranks, me = stage->rank;
    scan.block = scan.sum = stage->input;
    scan.scratch = most_scratch(me, n);
    builder_scratch(builder, scan.scratch);
    builder_hold(builder, stage->receive_lane, builder_all(stage->send_lane, builder->schedule->slots));
    for (uint32_t width = 1; width < n; width *= 2) {
        const bool makes_block = needs_block(me, 2 * (uint64_t)width, n);
        if (me & width) {
            if (needs_block(me - width, 2 * (uint64_t)width, n))
                stage_send(stage, scan.made, me - width, &scan.block, 0, 1);
            receive_from_below(&scan, width, makes_block, me < 2 * width);
        } else if (me + width < n) {
            stage_send(stage, scan.made, me + width, &scan.block, 0, 1);
            if (!makes_block)
                continue;
            const struct pieces both = take_scratch(&scan);
            scan.made = stage_receive_reduce(stage, (struct dependency){0}, me + width, &scan.block, &both, 0, 1, 0);
            scan.block = both;
        }
    }
    if (me == 0 && !scan.empty)
        end_with(&scan, &stage->input);
}
