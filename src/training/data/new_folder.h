/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A folder that appears whole or not at all: its files are written under a temporary name beside it, which is then
 * renamed. Belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_DATA_NEW_FOLDER_H
#define WEFT_TRAINING_DATA_NEW_FOLDER_H

#include "base/file/file.h"

struct new_folder {
    char path[FILE_PATH_BYTES];    /**< what it will be called */
    char partial[FILE_PATH_BYTES]; /**< what it is called until it is whole; write files here */
};

/**
 * Begin the folder `path`, which must not be there, or be empty; folders above it are made. Errors: ARGUMENT where it
 * has something in it, SYSTEM.
 */
weft_status new_folder_open(struct new_folder *folder, const char *path, struct error *error);

/** Sync and rename. On an error it is as if discarded. */
weft_status new_folder_close(struct new_folder *folder, struct error *error);

/** Remove it with what is in it; harmless after close. */
void new_folder_discard(struct new_folder *folder);

#endif
