/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Dynamic loss scaling (Micikevicius et al. 2018, "Mixed precision training"), for activations in f16.
 *
 * The gradient of the loss is multiplied by a scale, so that small gradients of activations stay above f16's smallest
 * number, 2^-24, and the gradients of weights are divided by it again. When a gradient overflows, the step is skipped and
 * the scale is halved; after LOSS_SCALE_STEPS steps without an overflow it is doubled. Scales are powers of two, so that
 * scaling rounds nothing.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_LOSS_SCALE_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_LOSS_SCALE_H

#include "base/format/json.h"

#include <stdbool.h>
#include <stdint.h>

#define LOSS_SCALE_FIRST 0x1p16
#define LOSS_SCALE_MOST  0x1p24
#define LOSS_SCALE_STEPS 2000

struct loss_scale {
    double scale;        /**< 0: gradients are not scaled */
    uint64_t good_steps; /**< since it last changed */
    uint64_t skipped;    /**< steps of the run */
};

/** A step was taken or, since its gradient overflowed, skipped. Does nothing if gradients are not scaled. */
void loss_scale_note(struct loss_scale *scale, bool skipped);

/** Into the keys "loss_scale", "loss_scale_steps" and "skipped_steps" of a checkpoint's training configuration; nothing if
 * gradients are not scaled. */
void loss_scale_put(const struct loss_scale *scale, cJSON *training);

/** Read these keys; `scale` stays as it is where they are missing, or if it does not scale. Errors: DATA for invalid
 * values. */
weft_status loss_scale_get(const cJSON *training, const char *where, struct loss_scale *scale, struct error *error);

#endif
