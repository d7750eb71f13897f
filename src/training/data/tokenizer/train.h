/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Training a tokenizer: merges learned from text.
 *
 * Byte pairs (Gage 1994; Sennrich et al. 2016). The distinct pre-tokens of the text are counted. Tokens 0 to 255 are
 * the bytes, in GPT-2's order. Then, until the vocabulary is full: of all pairs of neighboring tokens the one that
 * occurs most often is merged everywhere; among equals the one with the lower left token, then with the lower right
 * one. The last token is "<|endoftext|>".
 *
 * WordPiece, by the same merges, as Hugging Face's WordPieceTrainer does it. The tokens are the special ones, then the
 * characters that begin words and those that continue words ("##"), each in the order of their bytes, then the merged
 * ones. Of the characters the most frequent are taken, at most 2000 and at most half of the vocabulary. Words with
 * other characters, which are [UNK], and words of more than 255 bytes are left out.
 *
 * The same texts, in any order and divided in any way, give the same tokenizer.
 *
 * Counts of pairs are kept up to date where a merge changes them, and the most frequent is found by a heap: the time
 * follows the number of distinct pre-tokens, not the length of the text times the vocabulary.
 */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_TRAIN_H
#define WEFT_TRAINING_DATA_TOKENIZER_TRAIN_H

#include "training/data/tokenizer/tokenizer.h"

#include <signal.h>

#define TOKENIZER_TRAINING_LEAST 257 /* tokens: the bytes and the end of text; of both kinds */

struct tokenizer_training;

/** With `rules` WordPiece is learned from text that is cleaned so; NULL: byte pairs. */
weft_status tokenizer_training_open(const struct wordpiece_rules *rules, struct tokenizer_training **training,
                                    struct error *error);
void tokenizer_training_close(struct tokenizer_training *training);

/** Count the pre-tokens of a text, fewer than 2^32 - 1 bytes. */
weft_status tokenizer_training_read(struct tokenizer_training *training, const void *text, size_t size,
                                    struct error *error);

/** The number of distinct pre-tokens, or words. */
uint32_t tokenizer_training_words(const struct tokenizer_training *training);

/**
 * Learn a vocabulary of `vocabulary` tokens, or of fewer if no remaining pair occurs twice. Call it once. Errors:
 * ABORTED when `*stop` (may be NULL) becomes non-zero.
 */
weft_status tokenizer_training_finish(struct tokenizer_training *training, uint32_t vocabulary,
                                      const volatile sig_atomic_t *stop, struct tokenizer **tokenizer,
                                      struct error *error);

#endif
