/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Archives in the format tar (POSIX ustar and pax, and GNU's long names): an index of the members of one, and writing.
 * Only regular files count. Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_TAR_H
#define WEFT_TRAINING_DATA_IMAGE_TAR_H

#include "base/file/file.h"

#define TAR_NAME_BYTES 1024u /**< longest name of a member, its NUL included */

struct tar_member {
    const char *name; /**< until the call returns */
    uint64_t offset;  /**< of its bytes in the archive */
    uint64_t size;
};

/** What is called for each member. */
struct tar_visitor {
    weft_status (*visit)(void *context, const struct tar_member *member, struct error *error);
    void *context;
};

/**
 * Visit the regular files of the archive that is open for reading, from its first to its last. `path` and `size` are those
 * of the archive. Errors: DATA for damaged headers, for an archive that is cut within a member or has no end mark,
 * and for a path of more than TAR_NAME_BYTES - 1 bytes or a pax header above 1 MiB; SYSTEM; MEMORY; those of the visitor.
 */
weft_status tar_read(int descriptor, const char *path, uint64_t size, const struct tar_visitor *visitor,
                     struct error *error);

/** Append a regular file of `size` bytes; its name must be shorter than 100 bytes. Errors: those of the writer. */
weft_status tar_append(struct file_writer *writer, const char *name, const void *bytes, size_t size,
                       struct error *error);

/** Append the end mark. */
weft_status tar_finish(struct file_writer *writer, struct error *error);

#endif
