/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Encodes texts into token shards once, so that training reads tokens only.
 *
 * Each file is a document: its tokens are preceded by "<|endoftext|>", as in llm.c's data, where the tokenizer has that
 * token; the same string in a text begins another document. Files are held out by name (training/data/files.h). If no
 * file has such a name, the last part of all text is held out, from the beginning of a line on.
 *
 * The output is a directory with train_000000.bin ..., val_000000.bin ..., the tokenizer's files and a description
 * (packed.h). It appears atomically.
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
    const volatile sig_atomic_t *stop; /**< if it becomes non-zero, packing stops and nothing is written; may be NULL */
};

/**
 * Pack `count` paths, each a text or a directory of .txt files. Errors: SYSTEM; DATA for an empty text, for token shards
 * in place of text, for an invalid tokenizer; ARGUMENT for an output that exists already; ABORTED when stopped.
 */
weft_status data_pack(const char *const *paths, size_t count, const struct pack_options *options, struct packed *packed,
                      struct error *error);

#endif
