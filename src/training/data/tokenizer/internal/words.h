/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The words that WordPiece cuts into tokens: BERT's basic tokenization (Devlin et al. 2018, tokenization.py of the
 * released code; as Hugging Face's BertNormalizer and BertPreTokenizer do it). In this order:
 *
 *   - removed: invalid UTF-8, U+FFFD, NUL, and characters of Unicode's categories C* but tab, line feed and carriage
 *     return;
 *   - with strip_accents: canonical decomposition (NFD), and marks (category Mn) are removed;
 *   - with lower_case: each character becomes its simple lower case;
 *   - words end at whitespace (these three, and the categories Z*);
 *   - a word of its own is each punctuation mark (category P*, and all of ASCII that is no letter, digit or space) and
 *     each ideograph (the blocks CJK Unified Ideographs, their extensions A to E, and the compatibility ideographs).
 *
 * Properties of characters are libutf8proc's.
 */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_WORDS_H
#define WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_WORDS_H

#include "training/data/tokenizer/tokenizer.h"

/** Belongs to one thread at a time. */
struct words;

weft_status words_open(const struct wordpiece_rules *rules, struct words **words, struct error *error);

/** NULL is allowed. */
void words_close(struct words *words);

/** Begin with a text, which must not change until its last word. */
void words_begin(struct words *words, const void *text, size_t size);

/**
 * The next word, cleaned, in UTF-8, with a space before it (" word"), valid until the next call; `*size` is 0 after the
 * last one. Errors: MEMORY.
 */
weft_status words_next(struct words *words, const uint8_t **bytes, size_t *size, struct error *error);

#endif
