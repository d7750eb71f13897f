/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A text as the tokens that training reads: the tokenizer's end of text stands before it, and where the text has the
 * letters "<|endoftext|>" a document ends and the next begins, as in llm.c's data. `weft data pack` and training on a
 * text give the same tokens.
 */
#ifndef WEFT_TRAINING_DATA_INTERNAL_DOCUMENT_H
#define WEFT_TRAINING_DATA_INTERNAL_DOCUMENT_H

#include "training/data/text_reader.h"
#include "training/data/tokenizer/tokenizer.h"

/** Where tokens go; an error ends the encoding. */
struct token_sink {
    weft_status (*append)(void *context, const int32_t *tokens, size_t count, struct error *error);
    void *context;
};

/** Encode what a reader has, piece by piece; of nothing there are no tokens. Errors: MEMORY; the reader's; the sink's.
 */
weft_status document_encode(const struct tokenizer *tokenizer, struct encoder *encoder, struct text_reader *reader,
                            const struct token_sink *sink, struct error *error);

#endif
