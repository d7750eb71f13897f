/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A step of any optimizer on a rank's part of a group. adamw and sgd need nothing else; for lamb and lars the ranks that
 * have the other parts add up the norms of whole tensors, to the bits of one rank that has all of them.
 */
#ifndef WEFT_TRAINING_PARALLEL_SHARDED_UPDATE_H
#define WEFT_TRAINING_PARALLEL_SHARDED_UPDATE_H

#include "base/error.h"
#include "training/optimizer/optimizer.h"

#include <weft/weft.h>

/** Who has the other parts. */
struct sharded_ranks {
    weft_context *context;
    weft_comm *slices; /**< ranks that have whole blocks of each group; NULL: this one has all of them */
    weft_comm
        *tensor;    /**< ranks that have parts of the tensors that are divided (model_divide()); NULL: there is one */
    double *waited; /**< where the time of waiting for other ranks is added; NULL: nowhere */
};

/**
 * Update elements `own` of the group at `range`; `arrays` begin with the first of them. For lamb and lars collective over
 * both communicators, in the same order of groups. Errors: MEMORY, and those of weft_allreduce().
 */
weft_status sharded_update(const struct sharded_ranks *ranks, const struct model_description *description,
                           struct device *device, const struct optimizer *optimizer, const struct optimizer_step *step,
                           struct optimizer_range range, struct optimizer_range own,
                           const struct optimizer_arrays *arrays, struct error *error);

#endif
