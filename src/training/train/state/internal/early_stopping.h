/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Early stop: a run ends when so many evaluations in a row were no better than the best one. The losses of evaluations
 * are the same bits on every rank, so all come to the same decision; what is remembered lies in the checkpoint, so a
 * resumed run comes to it too.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_EARLY_STOPPING_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_EARLY_STOPPING_H

#include "base/format/json.h"

/** What is remembered. Holds no pointers, so that it can be sent between ranks as bytes. */
struct early_stopping {
    uint64_t evaluations; /**< so far */
    uint64_t since_best;  /**< evaluations after the best one */
    uint64_t last_step;   /**< steps taken at the last one, which counts here even without a limit; 0: there is none */
    uint64_t best_step;   /**< steps taken at the best one; 0: there is none */
    double best_loss;
};

/**
 * Take note of an evaluation after `step` steps; returns whether it is the best so far. A loss that is no number never
 * is. The same step again, as when a run that had ended is resumed, is not counted.
 */
bool early_stopping_note(struct early_stopping *stopping, uint64_t step, double loss);

/** Whether `limit` evaluations (0: no limit) have brought nothing. */
bool early_stopping_is_due(const struct early_stopping *stopping, uint64_t limit);

/** Into the keys "last_evaluation" and "evaluations" to "best_loss" of a checkpoint's training configuration; nothing
 * before the first evaluation. */
void early_stopping_put(const struct early_stopping *stopping, cJSON *training);

/** Back out of it; where it says nothing, nothing is remembered. Errors: DATA for values that cannot be. */
weft_status early_stopping_get(const cJSON *training, const char *where, struct early_stopping *stopping,
                               struct error *error);

#endif
