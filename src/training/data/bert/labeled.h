/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Labeled texts, to train BERT to classify.
 *
 * Files have a text a line, in UTF-8, with tabs between the columns:
 *
 *     label<TAB>text
 *     label<TAB>text<TAB>second text        for pairs, such as a premise and a hypothesis
 *
 * Nothing is quoted, there is no line of headings, and empty lines are left out, as is a byte-order mark. A label is a word or any other text
 * without a tab. The classes are the labels of the texts to train on, numbered from 0 in the order of their bytes. A
 * directory stands for its .txt files, or its .tsv files if it has no .txt files.
 *
 * The split: files whose name has the word "val" or "test" are held out (for a single "train.tsv" also the "val.tsv" in
 * the same directory). Without such a name a tenth of the texts is held out, the same in each run, at
 * least one. If all files are called so, there is nothing to train on, and the classes are the labels of the held-out texts.
 *
 * A sample is [CLS] text [SEP] or [CLS] text [SEP] second text [SEP], and padding. A text that is too long loses its
 * end; of two texts the longer one does. In each epoch the texts come in a pseudo-random permutation. tokens, segments,
 * lengths and labels are read.
 *
 * Texts are encoded into memory when the source is opened.
 */
#ifndef WEFT_TRAINING_DATA_BERT_LABELED_H
#define WEFT_TRAINING_DATA_BERT_LABELED_H

#include "training/data/bert/options.h"
#include "training/data/source.h"

#include <stddef.h>

#define LABELED_CLASSES_MOST 10000

/**
 * Open `count` paths, each a file or a directory. Close with sample_source_close().
 * Errors: SYSTEM for unreadable files; ARGUMENT for a sequence below BERT_SEQUENCE_LEAST and a tokenizer that is not
 * WordPiece; DATA, with file and line, for a line without a tab or with more than two, an empty label or text, and too
 * many labels; DATA for a tokenizer with more tokens than options->vocabulary, an empty file, a split without texts,
 * texts of one class, and a class that only one of the splits has.
 */
weft_status labeled_open(const char *const *paths, size_t count, const struct bert_data_options *options,
                         struct sample_source **source, struct error *error);

/**
 * Encode one text, or two, as a sample of labeled_open(): `tokens` and `segments` receive options->sequence numbers each,
 * *length the tokens before the padding. `other` NULL: there is one text. Errors: those of labeled_open() for options and
 * tokenizer; MEMORY.
 */
weft_status labeled_encode(const struct bert_data_options *options, const char *text, const char *other,
                           int32_t *tokens, int32_t *segments, int32_t *length, struct error *error);

/** The number of classes of a source of labeled_open(), at least 2. */
size_t labeled_classes(const struct sample_source *source);

/** The label of a class below labeled_classes(). Lives as long as the source. */
const char *labeled_class_name(const struct sample_source *source, size_t number);

#endif
