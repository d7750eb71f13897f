/* SPDX-License-Identifier: Apache-2.0 */
/** Parameters are matched by name: all ranks use rank 0's order, and messages name the ranks where one is missing. */
#ifndef WEFT_TRAINING_PARALLEL_INTERNAL_TENSOR_NAMES_H
#define WEFT_TRAINING_PARALLEL_INTERNAL_TENSOR_NAMES_H

#include "training/model/model.h"

/**
 * `parameters` are the `count` parameters as registered on this rank, not laid out yet; on return they are in rank 0's
 * order. They are compared as bytes, padding included, so begin with memset(). index_of[i] receives the index of the
 * one that was registered here as number i. Collective. Errors: MISMATCH, with the same message on all ranks, names a
 * parameter that is missing or different on some ranks, and the ranks.
 */
weft_status tensor_names_agree(weft_context *context, weft_comm *comm, struct model_parameter *parameters,
                               uint32_t count, uint32_t *index_of, struct error *error);

/**
 * After a step in which a gradient was missing on some rank: MISMATCH with the same message on all ranks, which names the
 * first such tensor and the ranks. `missing` holds one flag for each of `count` tensors. Collective.
 */
weft_status tensor_names_missing(weft_context *context, weft_comm *comm, const struct model_parameter *tensors,
                                 uint32_t count, const bool *missing, uint64_t step, struct error *error);

#endif
