/* SPDX-License-Identifier: Apache-2.0 */
/** Which files a dataset is made of, and which of them are held out. See dataset.h. */
#ifndef WEFT_TRAINING_DATA_FILES_H
#define WEFT_TRAINING_DATA_FILES_H

#include "base/string_list.h"

/**
 * The files of `count` paths: a directory stands for its .bin files, otherwise its .txt files, otherwise its .tsv
 * files, sorted by name. For a single "train" file the "val" file in the same directory is added. Free with
 * string_list_free(); on an error `files` is empty. Errors: SYSTEM; DATA for a directory without such files, and for one
 * that only has .tsv files, which hold labeled texts, unless the caller reads them (`labeled`).
 */
weft_status data_files_find(const char *const *paths, size_t count, bool labeled, struct string_list *files,
                            struct error *error);

/**
 * Whether the name of the file at `path` has the word "val", "valid" or "validation": "fineweb_val_000000.bin" has it,
 * "interval.txt" has not.
 */
bool data_file_is_held_out(const char *path);

/** Whether the name has the word "test". */
bool data_file_is_test(const char *path);

/** Which of some files are held out. */
enum data_file_split {
    DATA_FILES_SPLIT,    /**< those called val; the others are trained on */
    DATA_FILES_HELD_OUT, /**< all: each is called val or test, so there is nothing to train on */
    DATA_FILES_UNNAMED,  /**< no name says so */
};

enum data_file_split data_files_split(const struct string_list *files);

/** Whether `file`, one of files that are split like this, is held out by its name. */
bool data_file_is_split_off(enum data_file_split split, const char *file);

#endif
