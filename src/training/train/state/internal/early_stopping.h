/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Early stopping: a run ends after a number of evaluations in a row without a better one. The losses of evaluations have
 * the same bits on every rank, so all ranks decide alike. The state is in the checkpoint, so a resumed run decides alike.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_EARLY_STOPPING_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_EARLY_STOPPING_H

#include "base/format/json.h"

/** Holds no pointers, so that it can be sent between ranks as bytes. */
struct early_stopping {
    uint64_t evaluations; /**< so far */
    uint64_t since_best;  /**< evaluations after the best one */
    uint64_t last_step;   /**< steps taken at the last one, kept even without a limit; 0: there is none */
    uint64_t best_step;   /**< steps taken at the best one; 0: there is none */
    double best_loss;
};

/**
 * Take note of an evaluation after `step` steps; returns whether it is the best so far. A NaN never
 * is. A repeated step, as after resuming a finished run, is not counted.
 */
bool early_stopping_note(struct early_stopping *stopping, uint64_t step, double loss);

/** Whether the last `limit` evaluations (0: no limit) were not the best. */
bool early_stopping_is_due(const struct early_stopping *stopping, uint64_t limit);

/** Into the keys "last_evaluation" and "evaluations" to "best_loss" of a checkpoint's training configuration; nothing
 * before the first evaluation. */
void early_stopping_put(const struct early_stopping *stopping, cJSON *training);

/** Read these keys; all zero where they are missing. Errors: DATA for invalid values. */
weft_status early_stopping_get(const cJSON *training, const char *where, struct early_stopping *stopping,
                               struct error *error);

#endif
