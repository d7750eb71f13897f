/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules that need no algorithm: one exchange inside the control lines, the root sending to or receiving from each
 * rank in turn, one message.
 */
#include "core/schedule/generators/internal/generators.h"

static const struct dependency none = {0};

void write_linear_gather(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank != stage.root) {
        stage_send(&stage, none, stage.root, &stage.input, 0, 1);
        return;
    }
    stage_copy(&stage, stage.send_lane, none, &stage.input, 0, &stage.output, stage.rank, 1);
    for (uint32_t k = 1; k < stage.ranks; k++) {
        uint32_t from = (stage.root + k) % stage.ranks;
        stage_receive(&stage, none, from, &stage.output, from, 1);
    }
}

void write_linear_scatter(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank != stage.root) {
        stage_receive(&stage, none, stage.root, &stage.output, 0, 1);
        return;
    }
    for (uint32_t k = 1; k < stage.ranks; k++) {
        uint32_t to = (stage.root + k) % stage.ranks;
        stage_send(&stage, none, to, &stage.input, to, 1);
    }
    stage_copy(&stage, stage.receive_lane, none, &stage.input, stage.rank, &stage.output, 0, 1);
}

void write_message(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank == builder->shape->root)
        stage_send(&stage, none, builder->shape->peer, &stage.input, 0, 1);
    else if (stage.rank == builder->shape->peer)
        stage_receive(&stage, none, builder->shape->root, &stage.output, 0, 1);
}

void write_exchange(struct builder *builder)
{
    struct schedule *schedule = builder->schedule;
    struct step step = {.kind = STEP_EXCHANGE, .peer = builder_group_of_all(builder)};
    uint32_t widest = 1; /* blocks that the fullest input has */
    bool takes = schedule->rank == schedule->root;
    switch (schedule->collective) {
    case COLLECTIVE_ALLREDUCE:
        step.value = EXCHANGE_REDUCE;
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        step.value = EXCHANGE_REDUCE;
        step.source_chunk = schedule->rank;
        widest = schedule->ranks;
        break;
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
        step.operands = (uint16_t)collective_summed(schedule->collective, schedule->rank, schedule->ranks);
        step.value = step.operands ? EXCHANGE_REDUCE : EXCHANGE_NOTHING;
        break;
    case COLLECTIVE_REDUCE:
        step.value = takes ? EXCHANGE_REDUCE : EXCHANGE_NOTHING;
        break;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLGATHERV:
        step.value = EXCHANGE_GATHER;
        break;
    case COLLECTIVE_ALLTOALL:
        step.value = EXCHANGE_GATHER;
        step.source_chunk = schedule->rank;
        widest = schedule->ranks;
        break;
    case COLLECTIVE_GATHER:
        step.value = takes ? EXCHANGE_GATHER : EXCHANGE_NOTHING;
        break;
    case COLLECTIVE_BROADCAST:
        if (takes) { /* has it already */
            step.value = EXCHANGE_NOTHING;
        } else {
            step.value = EXCHANGE_TAKE;
            step.operands = (uint16_t)schedule->root;
        }
        break;
    case COLLECTIVE_SCATTER:
        step.value = EXCHANGE_TAKE;
        step.operands = (uint16_t)schedule->root;
        step.source_chunk = schedule->rank;
        widest = schedule->ranks;
        break;
    default:
        step.value = EXCHANGE_NOTHING;
        break;
    }
    schedule->most_block_bytes = SCHEDULE_INLINE_BYTES / widest;
    builder_add(builder, 0, step);
}
