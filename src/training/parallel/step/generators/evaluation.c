/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward passes alone. Where a rank has several stages, micro-batches go through them in groups of one for each rank, as
 * in interleaved 1F1B; the last group may be smaller.
 */
#include "training/parallel/step/internal/order.h"

void step_order_evaluation(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order)
{
    const uint32_t ranks = shape->pipeline;
    for (uint32_t group = 0; group < shape->micro_batches; group += ranks)
        for (uint32_t stage = pipeline_rank; stage < shape->stages; stage += ranks)
            for (uint32_t m = group; m < shape->micro_batches && m < group + ranks; m++)
                step_order_append(order, OPERATION_FORWARD, stage, m);
}
