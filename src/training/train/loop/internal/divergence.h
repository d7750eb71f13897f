/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Locates the origin of a loss or gradient that is not finite: step, rank, micro-batch and layer.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_DIVERGENCE_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_DIVERGENCE_H

#include "training/data/dataset.h"
#include "training/model/model.h"
#include "training/parallel/partition.h"

/** A step that was computed but not taken. Everything is borrowed. */
struct divergence {
    weft_context *context;
    weft_comm *comm;
    struct model *model;
    const struct dataset *dataset;
    const struct micro_batches *layout;
    const float *parameters;   /**< that the step was computed with */
    float *gradients;          /**< overwritten */
    int32_t *tokens, *targets; /**< room for a micro-batch */
    uint64_t seed;             /**< of the run */
    uint64_t step;             /**< steps taken before */
    double loss, norm;         /**< of the step; at least one is not finite */
};

/**
 * Every rank computes its micro-batches again; the message is that of the first rank with a number that is not finite.
 * Collective. Never WEFT_OK: WEFT_ERROR_DATA with the message on every rank, or another failure. *speaks as in
 * training/parallel/agreement.h.
 */
weft_status divergence_explain(const struct divergence *divergence, bool *speaks, struct error *error);

#endif
