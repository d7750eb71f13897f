/* SPDX-License-Identifier: Apache-2.0 */
/**
 * GPT-2's splitting rule: a text is cut into pre-tokens (words with the space before them, numbers, runs of signs, runs
 * of whitespace), and byte-pair merges never cross from one into the next. The rule is the published pattern
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * (Radford et al. 2019, encoder.py of the released code), matched by PCRE2 with Unicode's classes of letters and
 * numbers. Whitespace is Unicode's White_Space, as in Python's `regex`, which the released code uses.
 *
 * Every byte of a text is in exactly one pre-token. The pattern does not cover invalid UTF-8. Here each invalid byte
 * counts as a sign, as U+FFFD would in its place; the pre-token keeps the byte itself, so nothing is lost.
 */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_PRETOKENS_H
#define WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_PRETOKENS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A splitter; belongs to one thread at a time. */
struct pretokens;
struct wordpiece_rules;

/** With `rules` the pre-tokens are WordPiece's words (words.h), not parts of the text; NULL: GPT-2's. */
weft_status pretokens_open(const struct wordpiece_rules *rules, struct pretokens **splitter, struct error *error);
void pretokens_close(struct pretokens *splitter);

/** Begin with a text, which must not change until its last pre-token. Invalid UTF-8 is copied. */
weft_status pretokens_begin(struct pretokens *splitter, const void *text, size_t size, struct error *error);

/** The next pre-token, a part of the text, or a word that is valid until the next call; `*size` is 0 after the last. */
weft_status pretokens_next(struct pretokens *splitter, const uint8_t **bytes, size_t *size, struct error *error);

#endif
