/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A sequence that grows token by token. The keys and values of earlier tokens are cached, so that a further token costs
 * one row of every layer, however long the sequence is.
 *
 *     decoder_open(model, parameters, &decoder, error);
 *     decoder_append(decoder, prompt, prompt_count, error);
 *     while (...) {
 *         decoder_read(decoder, &logits, error);
 *         sample_draw(logits, ..., &token, error);
 *         decoder_append(decoder, &token, 1, error);
 *     }
 *
 * The model's sequence is the decoder's window. Only the last window of a longer prompt is read. When the window is
 * full, its later half is read again as a sequence that begins there, and the earlier tokens are dropped. So every
 * token depends on at least half a window. Belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_MODEL_DECODER_H
#define WEFT_TRAINING_MODEL_DECODER_H

#include "training/model/model.h"

struct decoder;

/** Begin an empty sequence. `model` must be opened with batch 1 and without training. It and `parameters` must outlive
 * the decoder, and nothing else may extend a sequence with that model meanwhile. */
weft_status decoder_open(struct model *model, const void *parameters, struct decoder **decoder, struct error *error);
void decoder_close(struct decoder *decoder);

/** Append tokens; nothing is computed yet. */
weft_status decoder_append(struct decoder *decoder, const int32_t *tokens, size_t count, struct error *error);

/** Go back to the first `count` tokens. Their cached keys and values stay valid if the window still begins at the same
 * token. */
void decoder_cut(struct decoder *decoder, size_t count);

/**
 * Read the tokens that have not been read yet; *logits receives the `vocabulary` logits of the token that follows,
 * until the next call. They are the same bits whenever the same tokens were appended in the same way. Errors: ARGUMENT
 * for an empty sequence; those of model_extend().
 */
weft_status decoder_read(struct decoder *decoder, const double **logits, struct error *error);

/** Tokens in the sequence, and how many of them lie before the window. */
size_t decoder_length(const struct decoder *decoder);
size_t decoder_forgotten(const struct decoder *decoder);

#endif
