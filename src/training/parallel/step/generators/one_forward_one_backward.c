/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1F1B (Narayanan et al. 2019, "PipeDream", with the flush of Narayanan et al. 2021): a forward pass for each stage that
 * follows, then forward and backward passes in turns. Bubble: (p - 1) (F + B) of a step, p stages; at most p
 * micro-batches are under way, where GPipe has all.
 */
#include "training/parallel/step/internal/order.h"

void step_order_1f1b(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order)
{
    const uint32_t warm_up = step_warm_up(shape, pipeline_rank);
    for (uint32_t m = 0; m < warm_up; m++)
        step_order_append(order, OPERATION_FORWARD, pipeline_rank, m);
    for (uint32_t m = 0; m < shape->micro_batches; m++) {
        if (m + warm_up < shape->micro_batches)
            step_order_append(order, OPERATION_FORWARD, pipeline_rank, m + warm_up);
        step_order_append_backward(order, pipeline_rank, m);
    }
}
