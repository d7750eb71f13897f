/* SPDX-License-Identifier: Apache-2.0 */
/** Text out of a language model: tokens drawn one by one, each fed back in, with the keys and values of earlier ones
 * kept. */
#ifndef WEFT_MODEL_SAMPLE_H
#define WEFT_MODEL_SAMPLE_H

#include "model/model.h"

/** How the next token is drawn. */
struct sample_options {
    double temperature; /**< logits are divided by it; 0: always the likeliest token */
    size_t top;         /**< draw among this many likeliest tokens; 0: among all */
    uint64_t seed;      /**< draw n uses number n of this stream (base/random.h) */
};

/** Draw a token from `count` logits: draw number `index` of the stream. `scratch` holds 2 x count doubles. */
int32_t sample_draw(const double *logits, size_t count, const struct sample_options *options, uint64_t index,
                    double *scratch);

/**
 * Continue `prompt` (at least one token) by `count` tokens written to `output`. `model` is opened with batch 1; its
 * sequence is the window: when it is full, its later half is read again and generation goes on. `emit` (may be NULL) is
 * called for each token as it comes.
 */
weft_status sample_generate(struct model *model, const void *parameters, const int32_t *prompt, size_t prompt_count,
                            const struct sample_options *options, size_t count, int32_t *output,
                            void (*emit)(void *context, int32_t token), void *context, struct error *error);

#endif
