/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of a run, as checkpoints store it: weights, the optimizer's moments and the number of steps taken. The data's
 * position follows from the steps.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_STATE_H
#define WEFT_TRAINING_TRAIN_STATE_STATE_H

#include "training/checkpoint/checkpoint.h"
#include "training/model/model.h"
#include "training/parallel/state_tensors.h"
#include "training/train/state/config.h"
#include "training/train/state/internal/early_stopping.h"
#include "training/train/state/internal/settings.h"
#include "training/train/text/text.h"

struct training_state {
    struct state_arrays arrays;          /**< the training's: all weights, and the moments of this rank's shard */
    uint64_t step;                       /**< steps taken */
    const struct text *text;             /**< of the tokens; borrowed */
    const char *kernels;                 /**< name of the kernel set that computes the steps; NULL: unknown */
    const struct dataset_identity *data; /**< of the training data; borrowed; NULL: not known */
    struct early_stopping early_stopping;
};

/** Send rank 0's step, early stopping and weights to all ranks. Collective. */
weft_status training_state_broadcast(struct training_state *state, const struct shards *shards, struct error *error);

/**
 * The contents of a checkpoint of `state` besides its tensors. Both trees of `written` are the caller's to delete. Without
 * memory for them they are incomplete, or NULL, which checkpoint_commit() refuses.
 */
void training_state_describe(const struct training_state *state, const struct train_config *config,
                             struct checkpoint_state *written);

/**
 * Read the newest whole checkpoint below `directory` (or `directory` itself, if it is one). One rank calls this.
 * WEFT_ERROR_DATA when it is damaged, of another model or optimizer, or of a run with other settings; `state` is then
 * unchanged. A checkpoint of other kernels than state->kernels is accepted, with a warning on config->warnings that the
 * bits will differ. `changes` as of settings_match().
 */
weft_status training_state_load(struct training_state *state, const struct train_config *config, const char *directory,
                                char changes[SETTINGS_TEXT_BYTES], struct error *error);

#endif
