/* SPDX-License-Identifier: Apache-2.0 */
/** What all sources of samples for BERT are opened with. */
#ifndef WEFT_TRAINING_DATA_BERT_OPTIONS_H
#define WEFT_TRAINING_DATA_BERT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define BERT_SEQUENCE_LEAST 8

struct tokenizer;

struct bert_data_options {
    uint64_t sequence;                 /**< tokens of a sample, its padding included, at least BERT_SEQUENCE_LEAST */
    uint64_t seed;                     /**< of the order and of everything random */
    uint64_t vocabulary;               /**< of the model, at least the tokenizer's; 0: the tokenizer's */
    const struct tokenizer *tokenizer; /**< WordPiece; used until the source is open */
    bool whole_words;                  /**< pre-training: mask all tokens of a word or none */
};

#endif
