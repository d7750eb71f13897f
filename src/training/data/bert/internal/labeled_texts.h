/* SPDX-License-Identifier: Apache-2.0 */
/** The texts and labels of files, encoded, in memory. See labeled.h for the format and the split. */
#ifndef WEFT_TRAINING_DATA_BERT_INTERNAL_LABELED_TEXTS_H
#define WEFT_TRAINING_DATA_BERT_INTERNAL_LABELED_TEXTS_H

#include "base/string_list.h"
#include "training/data/bert/internal/sample.h"

/** A text, or two that follow each other, as long as a sample can hold. */
struct labeled_text {
    uint64_t first; /**< token */
    uint32_t one;   /**< tokens of the text */
    uint32_t other; /**< of the second text */
    int32_t label;  /**< class */
    bool is_pair;
};

/** Zeroed, it is empty. */
struct labeled_texts {
    struct token_list tokens;
    struct labeled_text *texts; /**< those to train on first */
    size_t count, room;
    size_t held_out;            /**< the first text that is held out */
    struct string_list classes; /**< labels, sorted */
    uint64_t encoded, hash;     /**< tokens before texts were cut, and a hash of labels and such texts in file order */
    bool by_name;               /**< files called val or test are held out */
    bool held_out_only;         /**< all files are called so */
};

/** Read, check and encode the texts of `count` paths. Errors: those of labeled_open(). */
weft_status labeled_texts_open(const char *const *paths, size_t count, const struct bert_data_options *options,
                               struct labeled_texts *texts, struct error *error);
void labeled_texts_close(struct labeled_texts *texts);

#endif
