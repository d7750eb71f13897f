/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of a run, as checkpoints store it: weights, the optimizer's moments and the number of steps taken. The data's
 * position follows from the steps.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_STATE_H
#define WEFT_TRAINING_TRAIN_STATE_STATE_H

#include "training/checkpoint/checkpoint.h"
#include "training/model/model.h"
#include "training/parallel/state_transfer.h"
#include "training/train/state/config.h"
#include "training/train/state/internal/early_stopping.h"
#include "training/train/state/internal/loss_scale.h"
#include "training/train/state/internal/settings.h"
#include "training/train/text/text.h"

struct training_state {
    const struct model_description *description; /**< borrowed */
    const struct state_layout *layout;           /**< weights and moments; borrowed */
    uint64_t step;                               /**< steps taken */
    const struct text *text;                     /**< of the tokens; borrowed */
    const char *kernels;                         /**< name of the kernel set that computes the steps; NULL: unknown */
    const struct dataset_identity *data;         /**< of the training data; borrowed; NULL: not known */
    const struct sample_source *source;          /**< which knows the names of classes; borrowed; NULL: none */
    struct early_stopping early_stopping;
    struct loss_scale loss_scale;
};

/**
 * The contents of a checkpoint of `state` besides its tensors. Both trees of `written` are the caller's to delete. Without
 * memory for them they are incomplete, or NULL, which checkpoint_commit() refuses.
 */
void training_state_describe(const struct training_state *state, const struct train_config *config,
                             struct checkpoint_state *written);

/**
 * Read the newest checkpoint below `directory` (or `directory` itself, if it is one). Collective. Rank 0 verifies every
 * byte, unless the checkpoint has the identity `verified` (checkpoint_choose()).
 *
 * WEFT_ERROR_DATA on all ranks when it is damaged, of another model or optimizer, of a run with other settings, or has
 * more steps than the run (ARGUMENT); `state` is then unchanged. A checkpoint of other kernels than state->kernels is
 * accepted, with a warning on config->warnings that the bits will differ. Rank 0's `changes` as of settings_match().
 * *speaks as for agreement_reach().
 */
weft_status training_state_load(struct training_state *state, const struct train_config *config, const char *directory,
                                const struct checkpoint_identity *verified, char changes[SETTINGS_TEXT_BYTES],
                                bool *speaks, struct error *error);

#endif
