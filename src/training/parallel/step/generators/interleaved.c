/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interleaved 1F1B (Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters"): a rank has v
 * stages instead of one that is v times as long, so the bubble is v times shorter. Micro-batches go through in groups of
 * p: each group passes a rank's first stage, then its second, and so on. The number of micro-batches is a multiple of p.
 */
#include "training/parallel/step/internal/order.h"

/* Pass number `k` of a rank in one direction: which micro-batch, and the how-manieth of the rank's stages. */
static struct step_pass interleaved_pass(const struct step_shape *shape, uint32_t pipeline_rank, uint32_t k,
                                         enum step_operation_kind kind)
{
    const uint32_t ranks = shape->pipeline, local_stages = shape->stages / ranks, group = k / (ranks * local_stages),
                   within = k % (ranks * local_stages), forward = within / ranks,
                   local = kind == OPERATION_FORWARD ? forward : local_stages - 1 - forward;
    return (struct step_pass){kind, local * ranks + pipeline_rank, group * ranks + within % ranks};
}

void step_order_interleaved(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order)
{
    const uint32_t total = shape->micro_batches * (shape->stages / shape->pipeline),
                   warm_up = step_warm_up(shape, pipeline_rank);
    for (uint32_t k = 0; k < total + warm_up; k++) {
        if (k < total)
            order->passes[order->count++] = interleaved_pass(shape, pipeline_rank, k, OPERATION_FORWARD);
        if (k < warm_up)
            continue;
        const struct step_pass back = interleaved_pass(shape, pipeline_rank, k - warm_up, OPERATION_BACKWARD_INPUT);
        step_order_append_backward(order, back.stage, back.micro_batch);
    }
}
