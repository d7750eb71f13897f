/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZB-H1 (Qi et al. 2023, "Zero bubble pipeline parallelism"): 1F1B whose gradients of weights are computed later. Rank r
 * may keep r micro-batches more than 1F1B would, as many as rank 0 keeps anyway; it lets the gradients of weights lag
 * by that many, so gradients of inputs reach the ranks before it sooner, and what lags fills the bubble at the
 * end. Bubble: (p - 1) (F + B - W), where B is the pass for inputs alone.
 */
#include "training/parallel/step/internal/order.h"

void step_order_zero_bubble(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order)
{
    const uint32_t warm_up = step_warm_up(shape, pipeline_rank), lag = pipeline_rank;
    for (uint32_t m = 0; m < warm_up; m++)
        step_order_append(order, OPERATION_FORWARD, pipeline_rank, m);
    for (uint32_t m = 0; m < shape->micro_batches; m++) {
        if (m + warm_up < shape->micro_batches)
            step_order_append(order, OPERATION_FORWARD, pipeline_rank, m + warm_up);
        step_order_append(order, OPERATION_BACKWARD_INPUT, pipeline_rank, m);
        if (m >= lag)
            step_order_append(order, OPERATION_BACKWARD_WEIGHTS, pipeline_rank, m - lag);
    }
    for (uint32_t m = shape->micro_batches > lag ? shape->micro_batches - lag : 0; m < shape->micro_batches; m++)
        step_order_append(order, OPERATION_BACKWARD_WEIGHTS, pipeline_rank, m);
}
