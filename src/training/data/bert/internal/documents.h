/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Texts as documents of sentences, encoded, in memory. pairs.h has the rules by which a text is divided.
 */
#ifndef WEFT_TRAINING_DATA_BERT_INTERNAL_DOCUMENTS_H
#define WEFT_TRAINING_DATA_BERT_INTERNAL_DOCUMENTS_H

#include "training/data/bert/internal/sample.h"

/** All lists hold ends: an item begins where the one before it ends. Zeroed, it is empty. */
struct documents {
    struct token_list tokens;
    uint64_t *sentences; /**< where each ends in `tokens` */
    size_t sentence_count, sentence_room;
    uint64_t *documents; /**< where each ends in `sentences`; each has at least two */
    size_t document_count, document_room;
    size_t held_out;    /**< the first document that is held out; the others follow it */
    bool by_name;       /**< files are held out by their names; otherwise the last tenth of the documents */
    bool held_out_only; /**< all files are called val or test */
};

/**
 * Read and encode the texts of `count` paths. Errors: those of text_files_open(); DATA if there are fewer than two
 * documents in a split.
 */
weft_status documents_open(const char *const *paths, size_t count, const struct tokenizer *tokenizer,
                           struct documents *documents, struct error *error);
void documents_close(struct documents *documents);

/** The first sentence of a document, and the first token of a sentence; of the number after the last one: their end. */
static inline uint64_t documents_first_sentence(const struct documents *documents, uint64_t document)
{
    return document ? documents->documents[document - 1] : 0;
}
static inline uint64_t documents_first_token(const struct documents *documents, uint64_t sentence)
{
    return sentence ? documents->sentences[sentence - 1] : 0;
}

/** The tokens of sentences [first, end). */
static inline struct token_span documents_span(const struct documents *documents, uint64_t first, uint64_t end)
{
    const uint64_t begin = documents_first_token(documents, first);
    return (struct token_span){documents->tokens.tokens + begin, documents_first_token(documents, end) - begin};
}

#endif
