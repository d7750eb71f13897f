/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Output files named by the user: `--events FILE`, `--svg FILE`.
 *
 * A regular file, or one that does not exist yet, is replaced as a whole on success and otherwise unchanged; symbolic
 * links to it stay. Anything else (a pipe, a terminal, /dev/null) is written to directly, as is a file that standard
 * output or standard error already goes to. `-` is standard output.
 *
 * An output belongs to one thread; several outputs may be used in several threads.
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
    char file[FILE_PATH_BYTES]; /**< with all links resolved */
    struct file_writer writer;  /**< the file that will replace it; closed if written to directly */
};

/** Open `path`; waits for the reader of a named pipe. Errors: ARGUMENT; SYSTEM; MEMORY. */
weft_status named_output_open(struct named_output *output, const char *path, struct error *error);

/** Finish: the content is now at the path. After an error a regular file is unchanged. */
weft_status named_output_close(struct named_output *output, struct error *error);

/** Give up: a regular file stays unchanged. */
void named_output_discard(struct named_output *output);

/** Whether `path` is standard output: then nothing else should be printed. */
bool named_output_is_standard(const char *path);

/** Open, write `size` bytes, and close. */
weft_status named_output_write(const char *path, const void *content, size_t size, struct error *error);

#endif
