/* SPDX-License-Identifier: Apache-2.0 */
/** Weights and moments of value_groups.h as pieces of tensors, for checkpoints. */
#ifndef WEFT_TRAINING_PARALLEL_VALUE_PIECES_H
#define WEFT_TRAINING_PARALLEL_VALUE_PIECES_H

#include "training/parallel/sharding/value_groups.h"
#include "training/parallel/state_pieces.h"

/**
 * Append what this rank holds of a parameter to `pieces`, which has room: two pieces at most. The parameter's `count`
 * elements begin at element `first` of its group.
 */
void value_pieces_append(struct value_groups *groups, uint32_t group, uint32_t parameter, size_t first, size_t count,
                         struct state_pieces *pieces);

#endif
