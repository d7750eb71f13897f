/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Locates the origin of a loss or gradient that is not finite: step, rank, micro-batch and layer.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_DIVERGENCE_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_DIVERGENCE_H

#include "training/parallel/execute/executor.h"

/** A step that was computed but not taken. Everything is borrowed. */
struct divergence {
    weft_context *context;
    weft_comm *comm;
    struct executor *executor;
    struct device *device;
    const struct model_description *description;
    const struct executor_input *input; /**< of the step */
    uint32_t micro_batches;             /**< of a global batch */
    uint64_t step;                      /**< steps taken before */
    double loss, norm;                  /**< of the step; at least one is not finite */
};

/**
 * All ranks repeat the step, and check the output of every layer. The message is that of the rank with the first number
 * that is not finite: of the first micro-batch, forward before backward, in the order of the layers.
 *
 * Collective. Never WEFT_OK: WEFT_ERROR_DATA with the message on every rank, or another failure. *speaks as in
 * training/parallel/agreement.h.
 */
weft_status divergence_explain(const struct divergence *divergence, bool *speaks, struct error *error);

#endif
