/* SPDX-License-Identifier: Apache-2.0 */
/** The texts that a tokenizer is trained on or that are packed: files, read with text_reader.h. */
#ifndef WEFT_TRAINING_DATA_TEXTS_H
#define WEFT_TRAINING_DATA_TEXTS_H

#include "base/file/file.h"
#include "training/data/files.h"

struct data_texts {
    struct data_files files;
    uint64_t *sizes; /**< bytes of each */
    size_t count;
    uint64_t bytes; /**< of all together */
};

/**
 * Open `count` paths, each a file or a directory of .txt files. Errors: as data_files_find(); DATA for an empty file and
 * for token shards.
 */
weft_status texts_open(const char *const *paths, size_t count, struct data_texts *texts, struct error *error);
void texts_close(struct data_texts *texts);

#endif
