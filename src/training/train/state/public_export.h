/* SPDX-License-Identifier: Apache-2.0 */
/** A checkpoint's weights in the form that other tools load: model.safetensors and config.json in a directory, and
 * vocab.json and merges.txt where the checkpoint has them. */
#ifndef WEFT_TRAINING_TRAIN_STATE_PUBLIC_EXPORT_H
#define WEFT_TRAINING_TRAIN_STATE_PUBLIC_EXPORT_H

#include "training/checkpoint/checkpoint.h"

/**
 * Write the weights of `checkpoint` as `type` (f32, or rounded to f16 or bf16) to a new directory; what is there already
 * is left alone, but for an empty directory. Whole or not at all: the directory appears by rename. Takes memory for the
 * weights in f32 once. Errors: ARGUMENT if something is at `directory`; DATA if the checkpoint's model is none that Weft
 * knows.
 */
weft_status public_export(const struct checkpoint *checkpoint, const char *directory, weft_type type,
                          struct error *error);

#endif
