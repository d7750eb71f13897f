/* SPDX-License-Identifier: Apache-2.0 */
/** Elements of tensors as f32, from the types that public weights come in, and back. Any alignment. */
#ifndef WEFT_TRAINING_CHECKPOINT_CONVERT_H
#define WEFT_TRAINING_CHECKPOINT_CONVERT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Whether the two functions below take `type`: f32, f16 and bf16. */
bool convert_knows(weft_type type);

/** `count` elements of `type` as f32; each is exact. */
void convert_widen(weft_type type, size_t count, const void *from, float *to);

/**
 * `count` floats as `type`, each rounded to nearest, ties to even; what is too large for f16 becomes infinite, and a
 * NaN stays one. `to` may be `from`.
 */
void convert_narrow(weft_type type, size_t count, const void *from, void *to);

#endif
