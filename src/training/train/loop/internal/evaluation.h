/* SPDX-License-Identifier: Apache-2.0 */
/** Evaluation on held-out data, divided over the ranks; the same bits on any number of them. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_EVALUATION_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_EVALUATION_H

#include "training/data/dataset.h"
#include "training/model/model.h"

#include <stdatomic.h>

struct evaluation {
    weft_context *context;
    weft_comm *comm;
    struct model *model;
    const struct dataset *dataset;
    uint64_t first;            /**< held-out sequence that it begins with */
    uint32_t micro_batches;    /**< that make an evaluation */
    int32_t *tokens, *targets; /**< room for one micro-batch; borrowed */
    const atomic_int *stop;    /**< non-zero on any rank: give up; NULL on all ranks: never */
};

/**
 * Mean loss over `micro_batches` of the held-out part, from sequence `first` on. Collective. All ranks look at `stop`
 * together before each of their micro-batches; where they give up, *stopped (may be NULL without a `stop`) is true and
 * *loss is unchanged on all of them.
 */
weft_status evaluation_run(const struct evaluation *evaluation, const float *parameters, double *loss, bool *stopped,
                           struct error *error);

#endif
