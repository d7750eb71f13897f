/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A directory that appears atomically: its files are written to a temporary directory in the same place, which is then
 * renamed. Belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_DATA_NEW_DIRECTORY_H
#define WEFT_TRAINING_DATA_NEW_DIRECTORY_H

#include "base/file/file.h"

struct new_directory {
    char path[FILE_PATH_BYTES];    /**< the final name */
    char partial[FILE_PATH_BYTES]; /**< the temporary name; write files here */
};

/**
 * Begin the directory `path`, which must be empty or not exist. Parent directories are created. Errors: ARGUMENT if it
 * is not empty; SYSTEM.
 */
weft_status new_directory_open(struct new_directory *directory, const char *path, struct error *error);

/** Sync and rename. On an error it is discarded. */
weft_status new_directory_close(struct new_directory *directory, struct error *error);

/** Remove it and its contents; harmless after close. */
void new_directory_discard(struct new_directory *directory);

#endif
