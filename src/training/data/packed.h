/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The files that `weft data pack` writes next to its shards and that training needs: the tokenizer's two files, and
 * dataset.json:
 *
 *     {
 *       "weft": "0.1.0",
 *       "vocabulary": 8192,
 *       "tokenizer": "4be0...", (tokenizer_identify(); shards of older versions of Weft lack it)
 *       "train": { "tokens": 1040224, "bytes": 3737883, "files": 1 },
 *       "held_out": { "tokens": 115900, "bytes": 415321, "files": 1 }
 *     }
 *
 * "bytes" is the size of the text that was encoded. Thread-safe.
 */
#ifndef WEFT_TRAINING_DATA_PACKED_H
#define WEFT_TRAINING_DATA_PACKED_H

#include "base/error.h"
#include "base/file/file.h"
#include "training/data/dataset.h"
#include "training/data/tokenizer/tokenizer.h"

#include <stdbool.h>

#define PACKED_DESCRIPTION "dataset.json"

struct packed_split {
    uint64_t tokens, bytes, files;
};

struct packed {
    uint64_t vocabulary;
    char tokenizer[TOKENIZER_IDENTITY_BYTES]; /**< "": not known */
    struct packed_split splits[2];            /**< by enum dataset_split */
};

/**
 * The directory with the files of a dataset's path, and whether they are token shards. Only then do the tokenizer and
 * the description in it belong to them. Errors: those of data_files_find() and shard_open().
 */
weft_status packed_find(const char *path, char directory[FILE_PATH_BYTES], bool *are_tokens, struct error *error);

/** Whether `directory` has such a description; reading it. Errors: SYSTEM; DATA where it is malformed. */
bool packed_is_in(const char *directory);
weft_status packed_read(const char *directory, struct packed *packed, struct error *error);

weft_status packed_write(const char *directory, const struct packed *packed, struct error *error);

#endif
