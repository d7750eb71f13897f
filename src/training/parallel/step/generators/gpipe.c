/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPipe (Huang et al. 2019): all forward passes, then all backward passes. The bubble is that of 1F1B; all micro-batches
 * are under way at once.
 */
#include "training/parallel/step/internal/order.h"

void step_order_gpipe(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order)
{
    for (uint32_t m = 0; m < shape->micro_batches; m++)
        step_order_append(order, OPERATION_FORWARD, pipeline_rank, m);
    for (uint32_t m = 0; m < shape->micro_batches; m++)
        step_order_append_backward(order, pipeline_rank, m);
}
