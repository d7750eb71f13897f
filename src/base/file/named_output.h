/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files that a user names for what a command writes: `--events FILE`, `--svg FILE`.
 *
 * What is at the name stays what it is. A regular file, or none as yet, has the new content whole or stays as it was,
 * also behind a symbolic link, which stays. Everything else (a pipe, a terminal, /dev/null) is written to directly, as
 * is what standard output or standard error goes to already: there the text takes its turn. `-` is standard output.
 *
 * An output belongs to one thread; outputs of several threads need no care.
 */
#ifndef WEFT_BASE_FILE_NAMED_OUTPUT_H
#define WEFT_BASE_FILE_NAMED_OUTPUT_H

#include "base/error.h"
#include "base/file/file.h"

#include <stdio.h>

/** Begin with named_output_open(); end with named_output_close() or named_output_discard(). */
struct named_output {
    FILE *stream;               /**< to write to */
    char path[FILE_PATH_BYTES]; /**< as it was given */
    char file[FILE_PATH_BYTES]; /**< behind all links */
    struct file_writer writer;  /**< of what takes that name at the end; closed where it is written to directly */
};

/** Open what has the name `path`; waits for the reader of a named pipe. Errors: ARGUMENT; SYSTEM; MEMORY. */
weft_status named_output_open(struct named_output *output, const char *path, struct error *error);

/** All is written: what has the name has it now. After an error a regular file is as it was. */
weft_status named_output_close(struct named_output *output, struct error *error);

/** Nothing came of it: a regular file stays as it was. */
void named_output_discard(struct named_output *output);

/** Whether that is where standard output goes: nothing else should be printed then. */
bool named_output_is_standard(const char *path);

/** Open, write `size` bytes, and close. */
weft_status named_output_write(const char *path, const void *content, size_t size, struct error *error);

#endif
