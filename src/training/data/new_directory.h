/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A directory that appears whole or not at all: its files are written under a temporary name beside it, which is then
 * renamed. Belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_DATA_NEW_DIRECTORY_H
#define WEFT_TRAINING_DATA_NEW_DIRECTORY_H

#include "base/file/file.h"

struct new_directory {
    char path[FILE_PATH_BYTES];    /**< what it will be called */
    char partial[FILE_PATH_BYTES]; /**< what it is called until it is whole; write files here */
};

/**
 * Begin the directory `path`, which must not be there, or be empty; directories above it are made. Errors: ARGUMENT where it
 * has something in it, SYSTEM.
 */
weft_status new_directory_open(struct new_directory *directory, const char *path, struct error *error);

/** Sync and rename. On an error it is as if discarded. */
weft_status new_directory_close(struct new_directory *directory, struct error *error);

/** Remove it with what is in it; harmless after close. */
void new_directory_discard(struct new_directory *directory);

#endif
