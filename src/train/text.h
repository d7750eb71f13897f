/* SPDX-License-Identifier: Apache-2.0 */
/** The text that a run's tokens stand for: which vocabulary its data has, what a prompt is, how a sample is printed. */
#ifndef WEFT_TRAIN_TEXT_H
#define WEFT_TRAIN_TEXT_H

#include "data/tokenizer.h"

#include <stdio.h>

struct text {
    struct tokenizer *tokenizer; /**< beside the token shards; NULL: none */
    double bytes_per_token;      /**< of the held-out text; 0: not known */
    bool is_bytes;               /**< tokens are bytes: set by text_settle() */
};

/** Look what lies beside the data of a run. Errors: those of tokenizer_open() and packed_read(). */
weft_status text_open(const char *data, struct text *text, struct error *error);
void text_close(struct text *text);

/**
 * The vocabulary of a model whose named size has `named` tokens: the tokenizer's, or the size's own where that is of
 * tokens (not 256, of bytes) and at least as large.
 */
size_t text_vocabulary(const struct text *text, size_t named);

/** The model has `vocabulary` tokens: without a tokenizer, 256 are bytes. */
void text_settle(struct text *text, size_t vocabulary);

/** Whether a prompt can be encoded and a sample printed. */
bool text_is_known(const struct text *text);

/** Encode a prompt. Print tokens. */
weft_status text_encode(const struct text *text, const char *prompt, struct token_list *tokens, struct error *error);
void text_print(const struct text *text, const int32_t *tokens, size_t count, FILE *output);

#endif
