/* SPDX-License-Identifier: Apache-2.0 */
/** Conversion between f32 and the element types of public weights. Any alignment. */
#ifndef WEFT_TRAINING_CHECKPOINT_CONVERT_H
#define WEFT_TRAINING_CHECKPOINT_CONVERT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Whether the two functions below take `type`: f32, f16 and bf16. */
bool convert_knows(weft_type type);

/** `count` elements of `type` as f32; each is exact. */
void convert_to_f32(weft_type type, size_t count, const void *from, float *to);

/**
 * `count` floats as `type`, each rounded to nearest, ties to even. Values too large for f16 become infinite; NaNs are
 * preserved. `to` may be `from`.
 */
void convert_from_f32(weft_type type, size_t count, const void *from, void *to);

#endif
