/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Masked language modeling: which tokens of a sample are predicted, and what the network sees in their place (Devlin et
 * al. 2018, "BERT", section 3.1).
 *
 * 15 % of the tokens, rounded, at least one and at most model_masked_predictions(sequence), are chosen at random among
 * those that are not special ([UNK] is), where there are so many. Each becomes [MASK] with probability 0.8, a random
 * token that is not special with probability 0.1, and stays otherwise. With whole words, words are chosen in random
 * order, and those that would exceed the number are left out: there may be fewer predictions then, even none.
 */
#ifndef WEFT_TRAINING_DATA_BERT_INTERNAL_MASKING_H
#define WEFT_TRAINING_DATA_BERT_INTERNAL_MASKING_H

#include "training/data/bert/internal/sample.h"

/** Belongs to one thread at a time. Zeroed, it may be closed. */
struct masking {
    struct special_tokens specials;
    int32_t sorted[TOKENIZER_SPECIALS]; /**< the special tokens, rising */
    uint32_t vocabulary;
    size_t predictions; /**< of a row */
    bool *continues;    /**< [vocabulary] whether a token continues a word; NULL: tokens are chosen, not words */
    uint32_t *groups;   /**< where the words of a sample begin */
    uint8_t *chosen;    /**< [sequence] */
};

/** `options` and `specials` are checked ones (sample.h). Errors: MEMORY. */
weft_status masking_open(const struct bert_data_options *options, const struct special_tokens *specials,
                         struct masking *masking, struct error *error);
void masking_close(struct masking *masking);

/**
 * Mask the first `length` tokens of a row in place. `stream` is the sample's own stream of random numbers. Positions
 * rise; after the last one positions are 0 and targets -1. Returns the number of predictions.
 */
size_t masking_apply(struct masking *masking, uint64_t stream, int32_t *row, size_t length, int32_t *positions,
                     int32_t *targets);

#endif
