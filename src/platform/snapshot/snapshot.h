/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Snapshots of working directories. A run executes a snapshot, so later changes to the directory do not affect it.
 *
 * A store is a directory:
 *
 *     objects/3f/9a0c...   contents of files, named by their SHA-256: each content is stored once
 *     snapshots/8d11...    lists of a snapshot's entries (platform/snapshot/list.h), named by their own SHA-256
 *
 * The same tree therefore gives the same snapshot, and taking it again writes nothing. The list of a snapshot is
 * written after all of its objects are safe on disk: a snapshot is whole or absent. A crash may leave objects that no
 * snapshot lists; the next snapshot uses them, or snapshot_collect() removes them.
 *
 * A snapshot holds directories (empty ones too), files with their executable bit, and symbolic links; link targets are
 * not followed. Not included: files that .weftignore and .gitignore match, files that look like secrets
 * (platform/snapshot/internal/filter.h, secret_files.h), pipes, sockets, devices, and the store itself. A file that
 * changes while it is read is read again; if it keeps changing, that is an error.
 *
 * Files that only their owner may read, by their own mode or that of a directory below the top, are marked in the list
 * and checked out with owner-only modes.
 *
 * Thread-safe; several processes may use one store.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_SNAPSHOT_H
#define WEFT_PLATFORM_SNAPSHOT_SNAPSHOT_H

#include "base/file/file.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

#define SNAPSHOT_ID_BYTES     SHA256_TEXT_BYTES
#define SNAPSHOT_BYTES_MOST   ((uint64_t)256 << 20)
#define SNAPSHOT_FILE_MOST    ((uint64_t)64 << 20)
#define SNAPSHOT_ENTRIES_MOST 20000

/** Limits of a snapshot. Zero: the default in brackets. */
struct snapshot_limits {
    uint64_t bytes;      /**< all files together (SNAPSHOT_BYTES_MOST, 256 MiB) */
    uint64_t file_bytes; /**< one file (SNAPSHOT_FILE_MOST, 64 MiB) */
    uint64_t entries;    /**< files, directories and links (SNAPSHOT_ENTRIES_MOST, 20,000) */
};

struct snapshot {
    char id[SNAPSHOT_ID_BYTES]; /**< the SHA-256 of its list in hexadecimal digits */
    uint64_t files, directories, links;
    uint64_t bytes;      /**< all files together */
    uint64_t new_bytes;  /**< contents that the store did not have */
    uint64_t left_out;   /**< entries left out; a directory counts once */
    uint64_t secrets;    /**< the ones among these that look like secrets */
    uint64_t owner_only; /**< files included that only their owner may read */
    uint64_t special;    /**< pipes, sockets, devices */
};

#define SNAPSHOT_OMISSIONS_MOST 10000
#define SNAPSHOT_WHY_BYTES      96

/** An entry that was left out, and why. Standard ones such as .git/ are not listed. */
struct snapshot_omission {
    char *path;                   /**< relative to the top; a directory's ends with a slash */
    char why[SNAPSHOT_WHY_BYTES]; /**< "AWS credentials", "src/.gitignore" */
    bool secret;                  /**< it looks like a secret; otherwise a pattern of the user matched */
};

/** The first SNAPSHOT_OMISSIONS_MOST entries left out. All zero is an empty list. */
struct snapshot_omissions {
    struct snapshot_omission *list;
    size_t count, room;
};

void snapshot_omissions_free(struct snapshot_omissions *omissions);

struct snapshot_options {
    const struct snapshot_limits *limits; /**< NULL: the defaults */
    bool outside;                         /**< also apply ignore files above the directory and in git's settings */
    /**
     * An untrusted program wrote the tree: the directory must not be a link, and if this process is root, a file of
     * another user than the directory's is an error (STATE), because the program may have linked a file that it cannot
     * read.
     */
    bool foreign;
    bool *refused; /**< not NULL: a file that only its owner may read is an error (STATE), and this becomes true */
    struct snapshot_omissions *omissions; /**< entries left out are added here; may be NULL */
};

/**
 * Take a snapshot of `directory` into `store`, which is made if it is missing. `options` may be NULL. Errors: ARGUMENT
 * if `directory` cannot be opened or the snapshot is above the limits (the message names the file and .weftignore);
 * SYSTEM for what cannot be read or written; DATA for an invalid .weftignore.
 */
weft_status snapshot_take(const char *store, const char *directory, const struct snapshot_options *options,
                          struct snapshot *snapshot, struct error *error);

/**
 * Make the directory `target`, which must be missing or empty, from the snapshot `id`. Files are copies, which share
 * blocks with the store where the file system can do that; writing to them changes no other. Each content is compared
 * with its hash. After an error there is no `target`.
 */
weft_status snapshot_check_out(const char *store, const char *id, const char *target, struct error *error);

#endif
