/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Texts to token shards, once, so that training reads tokens and nothing else.
 *
 * Each file is a document: its tokens are preceded by "<|endoftext|>", as in llm.c's data, where the tokenizer has that
 * token; where a text has these letters, a document ends and the next begins. Held out are the files that are called so
 * (training/data/files.h), or, if none or all are, the last share of all the text, from the beginning of a line on.
 *
 * What is written is a directory with train_000000.bin ..., val_000000.bin ..., the tokenizer's files and a description
 * (packed.h); it appears whole or not at all.
 */
#ifndef WEFT_TRAINING_DATA_PACK_H
#define WEFT_TRAINING_DATA_PACK_H

#include "training/data/packed.h"

#include <signal.h>

struct pack_options {
    const char *tokenizer;             /**< its directory */
    const char *output;                /**< the directory to make */
    double held_out;                   /**< share of the text, below 1; 0: none */
    uint64_t shard_tokens;             /**< most tokens in a file */
    const volatile sig_atomic_t *stop; /**< where it becomes non-zero nothing is written; may be NULL */
};

/**
 * Pack `count` paths, each a text or a directory of .txt files. Errors: SYSTEM; DATA for an empty text, for token shards
 * in place of text, for a tokenizer that is none; ARGUMENT for an output that is there already; ABORTED when stopped.
 */
weft_status data_pack(const char *const *paths, size_t count, const struct pack_options *options, struct packed *packed,
                      struct error *error);

#endif
