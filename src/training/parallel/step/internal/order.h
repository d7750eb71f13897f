/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The order in which a pipeline rank computes: what distinguishes one pipeline schedule from another. Everything else
 * (messages, buffers, gathers, reductions) is added by step_write() in the same way for all.
 *
 * A new pipeline schedule is a file in generators/, its function here, and a line in each of the two tables of generate.c.
 */
#ifndef WEFT_TRAINING_PARALLEL_STEP_INTERNAL_ORDER_H
#define WEFT_TRAINING_PARALLEL_STEP_INTERNAL_ORDER_H

#include "training/parallel/step/step.h"

/** One pass of a stage over a micro-batch. */
struct step_pass {
    enum step_operation_kind kind; /**< OPERATION_FORWARD, OPERATION_BACKWARD_INPUT or OPERATION_BACKWARD_WEIGHTS */
    uint32_t stage, micro_batch;
};

/** Passes are appended in the order of their execution; `passes` has room for all. */
struct step_order {
    struct step_pass *passes;
    size_t count;
};

static inline void step_order_append(struct step_order *order, enum step_operation_kind kind, uint32_t stage,
                                     uint32_t micro_batch)
{
    order->passes[order->count++] = (struct step_pass){kind, stage, micro_batch};
}

/** Both backward passes, one after the other. */
static inline void step_order_append_backward(struct step_order *order, uint32_t stage, uint32_t micro_batch)
{
    step_order_append(order, OPERATION_BACKWARD_INPUT, stage, micro_batch);
    step_order_append(order, OPERATION_BACKWARD_WEIGHTS, stage, micro_batch);
}

void step_order_gpipe(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order);
void step_order_1f1b(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order);
void step_order_interleaved(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order);
void step_order_zero_bubble(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order);
void step_order_evaluation(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order);

/** Forward passes that a rank begins with, before its first backward pass. */
uint32_t step_warm_up(const struct step_shape *shape, uint32_t pipeline_rank);

#endif
