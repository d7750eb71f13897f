/* SPDX-License-Identifier: Apache-2.0 */
/** Copying a tree of files, with a list of their checksums. */
#ifndef WEFT_PLATFORM_BACKUP_INTERNAL_TREE_H
#define WEFT_PLATFORM_BACKUP_INTERNAL_TREE_H

#include "base/buffer.h"
#include "base/file/file.h"

/** A copy in progress. */
struct tree_copy {
    const char *from, *to; /**< directories; the trees and files are named by paths below both */
    bool living;           /**< what disappears meanwhile is left out; otherwise it is an error */
    const char *lenient; /**< "runs/": below it, what cannot be read or is too deep is left out and counted; or NULL */
    uint64_t left_out;
    char first_left_out[256];
    struct buffer sums; /**< a line for each file, as sha256sum writes it */
    uint64_t files, bytes;
};

/**
 * Copy the file or directory `path`; nothing there: nothing to do. Regular files, directories and links are copied, with
 * modes and times, and owners if this is root; links are not followed, others (sockets, pipes) are left out. The entries of
 * a directory are copied in the order of their names, so that equal trees have equal lists. Errors: SYSTEM; MEMORY; DATA
 * for directories more than 256 deep.
 */
weft_status tree_copy(struct tree_copy *copy, const char *path, struct error *error);

/** Add the file at `path` below copy->to, which is there already, to the list. */
weft_status tree_copy_count(struct tree_copy *copy, const char *path, struct error *error);

void tree_copy_free(struct tree_copy *copy);

#endif
