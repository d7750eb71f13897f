/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny operations among local ranks: everything crosses inside the control lines, in one step. */
#include "core/schedule/generators/internal/generators.h"

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
