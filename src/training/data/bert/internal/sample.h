/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rows of samples of BERT: [CLS] one [SEP], or [CLS] one [SEP] other [SEP], then [PAD] up to the sequence. Segments
 * are 0 up to the first [SEP] and in the padding, 1 after it.
 */
#ifndef WEFT_TRAINING_DATA_BERT_INTERNAL_SAMPLE_H
#define WEFT_TRAINING_DATA_BERT_INTERNAL_SAMPLE_H

#include "base/error.h"
#include "training/data/bert/options.h"
#include "training/data/tokenizer/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

/** Neighboring tokens of a text. */
struct token_span {
    const int32_t *tokens;
    size_t count;
};

/** Numbers of a tokenizer's special tokens. */
struct special_tokens {
    int32_t of[TOKENIZER_SPECIALS];
};

/**
 * Check a source's options and take the special tokens from their tokenizer. Errors: ARGUMENT for a sequence that is
 * too short or too long, and for a tokenizer that is not WordPiece; DATA for a vocabulary that is too small.
 */
weft_status sample_check_options(const struct bert_data_options *options, struct special_tokens *specials,
                                 struct error *error);

/** The room for tokens of texts in a sample with `texts` of them (1 or 2). */
size_t sample_room(uint64_t sequence, int texts);

/** Shorten two texts to `room` tokens together: the longer one, and both once they are equally long. */
void sample_fit(size_t room, size_t *one, size_t *other);

/** Write the row of `sequence` tokens; `other.tokens` NULL: there is one text. Returns the tokens before the padding. */
size_t sample_put_tokens(const struct special_tokens *specials, struct token_span one, struct token_span other,
                         int32_t *row, size_t sequence);

/** Write the row's segments, for texts of these lengths; `other` 0: there is one text. */
void sample_put_segments(size_t one, size_t other, int32_t *row, size_t sequence);

#endif
