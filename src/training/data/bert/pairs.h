/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Samples to pre-train BERT: two texts, masked tokens, and whether the second follows the first (after Devlin et al.
 * 2018, create_pretraining_data.py of the released code).
 *
 * Files are text in UTF-8. A directory stands for its .txt files (.tsv files hold labeled texts).
 *   - A line is a sentence. In a file whose lines have more than 256 bytes on average, sentences also end within lines:
 *     at . ! or ?, perhaps with closing quotes or brackets, where a space and a capital letter A to Z or an opening
 *     quote follow.
 *   - Documents are separated by blank lines. A sentence alone, such as a heading, belongs to the document after it, or
 *     to the one before it at the end of a file. A file with one sentence is left out.
 * The split: files whose name has the word "val" are held out (as in dataset.h); otherwise the last tenth of the
 * documents, at least two.
 *
 * A sample is [CLS] A [SEP] B [SEP] and padding. A is one or more neighboring sentences of a document. B is the
 * sentences after it (label 0), or sentences of another document (label 1), each with probability 1/2. Together they
 * have as many sentences as are needed to fill the sequence or, with probability 0.1, a shorter random length. The
 * longer of the two is then shortened, at both of its ends, to fit. Tokens are masked as masking.h describes. tokens,
 * segments, lengths, positions, targets and labels are read.
 *
 * An epoch has a sample for each part that the training documents are cut into: neighboring sentences of a document
 * that fill a sequence. The parts come in a pseudo-random permutation, and a sample begins at a random sentence of its
 * part. Both texts begin earlier where the rest of their document would not fill the sample, so the length does not
 * tell the label. Everything random is a function of (seed, number of the sample), and of held-out samples of their
 * number alone.
 *
 * Texts are encoded into memory when the source is opened.
 */
#ifndef WEFT_TRAINING_DATA_BERT_PAIRS_H
#define WEFT_TRAINING_DATA_BERT_PAIRS_H

#include "training/data/bert/options.h"
#include "training/data/source.h"

#include <stddef.h>

/**
 * Open `count` paths, each a file or a directory. Close with sample_source_close().
 * Errors: SYSTEM for unreadable files; ARGUMENT for a sequence below BERT_SEQUENCE_LEAST and a tokenizer that is not
 * WordPiece; DATA for a tokenizer with more tokens than options->vocabulary, an empty file, token shards, texts without
 * a document of two sentences, and fewer than two documents in a split.
 */
weft_status pairs_open(const char *const *paths, size_t count, const struct bert_data_options *options,
                       struct sample_source **source, struct error *error);

#endif
