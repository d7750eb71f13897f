/* SPDX-License-Identifier: Apache-2.0 */
/** Which files a dataset is made of, and which of them are held out. See dataset.h. */
#ifndef WEFT_TRAINING_DATA_FILES_H
#define WEFT_TRAINING_DATA_FILES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/** A growing list of paths. */
struct data_files {
    char **paths;
    size_t count, room;
};

/**
 * The files of `count` paths: a file is itself, a directory is its .bin files, or if it has none its .txt files, sorted by
 * name. A single "train" file brings the "val" file beside it. On an error `files` is left empty.
 */
weft_status data_files_find(const char *const *paths, size_t count, struct data_files *files, struct error *error);
void data_files_free(struct data_files *files);

/**
 * Whether the name of the file at `path` has the word "val", "valid" or "validation": letters between other characters,
 * so that "fineweb_val_000000.bin" has it and "interval.txt" has not.
 */
bool data_file_is_held_out(const char *path);

#endif
