/* SPDX-License-Identifier: Apache-2.0 */
/** Drawing the next token of a text from a model's logits. Thread-safe. */
#ifndef WEFT_TRAINING_MODEL_SAMPLE_H
#define WEFT_TRAINING_MODEL_SAMPLE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/** Which tokens may be drawn, and with what probability. */
struct sample_options {
    double temperature; /**< logits are divided by it; 0: always the likeliest token */
    size_t top_k;       /**< draw among this many of the likeliest tokens; 0: among all */
    double top_p;       /**< then among the fewest of the likeliest that together have this share of the probability
                           (Holtzman et al. 2020, "The curious case of neural text degeneration"); 0 or 1: among all */
    uint64_t seed;      /**< draw n uses number n of this stream (base/random.h) */
};

/**
 * Draw one of the tokens 0 to `count` - 1: draw number `index` of the stream. Among equal logits the lower token counts
 * as likelier, so top_k = 1 equals a temperature of 0, and at least one token always remains. A token with a logit of
 * minus infinity is never drawn. `scratch` holds 2 x count doubles, and is not used at a temperature of 0. Errors:
 * DATA, with the first such token, where a logit is not a number or infinite, and where all are minus infinity; then
 * *token is unchanged.
 */
weft_status sample_draw(const double *logits, size_t count, const struct sample_options *options, uint64_t index,
                        double *scratch, int32_t *token, struct error *error);

#endif
