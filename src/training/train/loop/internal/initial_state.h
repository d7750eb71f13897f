/* SPDX-License-Identifier: Apache-2.0 */
/** The state that a run begins with: a checkpoint's, that of --from, or initial weights. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_INITIAL_STATE_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_INITIAL_STATE_H

#include "base/error.h"
#include "base/file/file.h"

#include <stdbool.h>

struct trainer;

/**
 * Decide which checkpoint to take, the same on all ranks: the newest one in rank 0's `directory` (NULL: none, and `found`
 * is "") that is whole or, with --checkpoint-copy, a copy if that is newer. If the newest one in `directory` is not taken,
 * rank 0 warns. Collective. Errors: DATA if none can be used.
 */
weft_status initial_state_find(struct trainer *trainer, const char *directory, char found[FILE_PATH_BYTES],
                               bool *speaks, struct error *error);

/** No step has been taken. Weights and moments are not touched. */
void initial_state_clear(struct trainer *trainer);

/**
 * Set weights and moments, which are 0, and the rest of a state that is clear: from the newest checkpoint below
 * `directory`, or, where that is NULL, from the weights of --from, or else by the seed. Collective. Errors: those of
 * training_state_load() and pretrained_read(), on all ranks.
 */
weft_status initial_state_set(struct trainer *trainer, const char *directory, bool *speaks, struct error *error);

#endif
