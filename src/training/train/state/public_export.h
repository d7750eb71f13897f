/* SPDX-License-Identifier: Apache-2.0 */
/** A checkpoint's weights in the form that other tools load: model.safetensors and config.json (with the names of classes)
 * in a directory, and vocab.json and merges.txt where the checkpoint has them. */
#ifndef WEFT_TRAINING_TRAIN_STATE_PUBLIC_EXPORT_H
#define WEFT_TRAINING_TRAIN_STATE_PUBLIC_EXPORT_H

#include "training/checkpoint/checkpoint.h"

/**
 * Write the weights of `checkpoint` as `type` (f32, or rounded to f16 or bf16) to a new directory; only an empty
 * directory may exist there already. The directory appears atomically. Needs memory for the weights in f32.
 * Errors: ARGUMENT if `directory` exists already; DATA if Weft does not know the checkpoint's model.
 */
weft_status public_export(const struct checkpoint *checkpoint, const char *directory, weft_type type,
                          struct error *error);

#endif
