/* SPDX-License-Identifier: Apache-2.0 */
/** Parameters are matched by name: all ranks take rank 0's order, and who lacks one is told of. */
#ifndef WEFT_TRAINING_PARALLEL_INTERNAL_TENSOR_NAMES_H
#define WEFT_TRAINING_PARALLEL_INTERNAL_TENSOR_NAMES_H

#include "training/model/model.h"

/** What ranks compare of a parameter. No pointers, and every byte counts. */
struct tensor_name {
    char name[MODEL_NAME_BYTES];
    uint64_t shape[MODEL_DIMENSIONS];
    uint64_t decays, frozen;
    double rate; /**< factor of the learning rate */
};

/**
 * `names` are the `count` parameters as registered on this rank; on return they are rank 0's. numbers[i] receives the
 * number there of what was registered here as i. Collective. MISMATCH, with the same message on all ranks, names a
 * parameter that some lack or that differs, and the ranks.
 */
weft_status tensor_names_agree(weft_context *context, weft_comm *comm, struct tensor_name *names, uint32_t count,
                               uint32_t *numbers, struct error *error);

/**
 * After a step in which some rank missed a gradient: MISMATCH with the same message on all ranks, which names the
 * first such tensor and the ranks. `missing` holds one for each of `count` tensors. Collective.
 */
weft_status tensor_names_missing(weft_context *context, weft_comm *comm, const struct model_parameter *tensors,
                                 uint32_t count, const bool *missing, uint64_t step, struct error *error);

#endif
