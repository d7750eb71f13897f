/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Datasets of tokens, and the order in which a run reads them.
 *
 * Formats, recognized by content and name (dataset_describe() says how):
 *   - llm.c shards: a header of 256 int32 (magic 20240520, version 1, number of tokens), then uint16 tokens; also its
 *     32-bit form (magic 20240801, version 7, uint32 tokens);
 *   - nanoGPT shards: a name that ends in ".bin" and no such header: uint16 tokens, little-endian, nothing else;
 *   - any other file: text. Its bytes are the tokens, vocabulary 256; or, where the options have a tokenizer, the text
 *     is encoded when it is opened (text_reader.h), into memory.
 * A dataset is one file, several files of one format, or directories of them (their .bin files, or if there are none
 * their .txt files, by name). Files are read as samples are asked for, and stay open.
 *
 * The split: files whose name has the word "val" are held out (for a
 * single "train.bin" also the "val.bin" in the same directory). Without such a name the last tenth of all tokens is
 * held out, at least one sample. Where all names have the word "val" or "test", all is held out, and there are no
 * samples to train on.
 *
 * The order. A sample is `sequence` + 1 neighboring tokens of one file: inputs, and targets one further. In each epoch
 * the training files are cut into as many whole samples as fit, touching (a sample's last target is the next one's
 * first input), and these are read in a pseudo-random permutation (permutation.h); the cut begins at another offset in
 * each epoch. Which tokens sample number n of the run has is a function of (files, sequence, seed, n) alone. So the
 * position of a run is one integer, and a sample is the same whichever rank asks for it: with M micro-batches of B
 * samples, micro-batch m of step s is
 *
 *     dataset_batch(dataset, DATASET_TRAIN, (s * M + m) * B, B, tokens, targets, error)
 *
 * on any rank of any world. Held-out samples are read in file order, from the start again after the last.
 *
 * A dataset never changes after it is opened: any number of threads may read it.
 */
#ifndef WEFT_TRAINING_DATA_DATASET_H
#define WEFT_TRAINING_DATA_DATASET_H

#include "base/error.h"
#include "training/data/source.h"

#include <stddef.h>
#include <stdint.h>

struct dataset;
struct tokenizer;

/** Options of reading. */
struct dataset_options {
    uint64_t sequence;   /**< input tokens of a sample, at least 1 */
    uint64_t seed;       /**< of the order */
    uint64_t vocabulary; /**< tokens must be below it; 0: 256 for bytes, 50257 (GPT-2's) for 16-bit shards, 128256 for
                            32-bit */
    const struct tokenizer *tokenizer; /**< encodes text, until dataset_open() returns; NULL: bytes are tokens */
};

/**
 * Open a dataset of `count` paths, each a file or a directory.
 * Errors: SYSTEM for unreadable files, ARGUMENT for mixed formats; DATA for an empty file, a shard of odd size, a
 * header with an unknown version or a count that differs from the file's contents, or too few tokens for one sample in
 * each split (the message has the number found and the number needed).
 */
weft_status dataset_open(const char *const *paths, size_t count, const struct dataset_options *options,
                         struct dataset **dataset, struct error *error);

/**
 * A dataset of random tokens, without end and without a pattern, for measuring speed: sample n has the tokens that n
 * and the options' seed give. Errors: ARGUMENT.
 */
weft_status dataset_open_random(const struct dataset_options *options, struct dataset **dataset, struct error *error);

void dataset_close(struct dataset *dataset);

/** The dataset as a source of samples, which is closed with it. */
struct sample_source *dataset_source(struct dataset *dataset);

/** One line of text: the format, how it was recognized, and the split. Lives as long as the dataset. */
const char *dataset_describe(const struct dataset *dataset);

/** Number of different tokens: options' vocabulary, or the format's. */
uint64_t dataset_vocabulary(const struct dataset *dataset);

/** Bytes of text that a token of the held-out split stands for; 0: not known, as of token shards. */
double dataset_bytes_per_token(const struct dataset *dataset);

/** Tokens in a split; samples in one epoch of it. */
uint64_t dataset_tokens(const struct dataset *dataset, enum dataset_split split);
uint64_t dataset_samples(const struct dataset *dataset, enum dataset_split split);

/**
 * Identify a dataset by its tokens. Up to 4 Mi tokens are hashed completely. Of larger datasets, evenly spaced blocks
 * of 4096 tokens are hashed, at least two per file, so that a terabyte takes no longer; a change between the blocks
 * goes undetected. Errors: those of dataset_batch() for files.
 */
weft_status dataset_identify(const struct dataset *dataset, struct dataset_identity *identity, struct error *error);

/**
 * Samples first to first + samples - 1 of a split, counted over all epochs: `tokens` and `targets` receive samples x
 * sequence token numbers each, row by row; either may be NULL. Errors: DATA for a token outside the vocabulary, named
 * with file and place, and for a file that was truncated since it was opened; SYSTEM for one that cannot be read.
 */
weft_status dataset_batch(const struct dataset *dataset, enum dataset_split split, uint64_t first, uint64_t samples,
                          int32_t *tokens, int32_t *targets, struct error *error);

#endif
