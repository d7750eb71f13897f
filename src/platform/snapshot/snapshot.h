/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Snapshots of working directories: what a run is started from, whatever becomes of the directory afterwards.
 *
 * A store is a directory:
 *
 *     objects/3f/9a0c...   the bytes of files, named for their SHA-256: each content is kept once
 *     snapshots/8d11...    lists of what a snapshot holds (platform/snapshot/list.h), named for their own SHA-256
 *
 * So the same tree gives the same snapshot, and taking it again writes nothing. A snapshot's list is written when all
 * of its objects are safe on disk: it is there whole or not at all. What a crash leaves behind are objects that no
 * snapshot names; the next one uses them.
 *
 * Taken are directories (empty ones too), files with their bit of being executable, and symbolic links as such: where
 * they point is never looked at. Files that .weftignore and .gitignore match and files that look like secrets are left
 * out (platform/snapshot/internal/filter.h, secret_files.h). Pipes, sockets and devices are left out; so is the store itself. A file that
 * changes while it is read is read again; one that does not come to rest is an error.
 *
 * Owner-only files (neither the group nor others may read them, or enter a directory below the top that contains them)
 * are marked in the list, and checked out with owner-only modes.
 *
 * Thread-safe, and several processes may use one store.
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

/** What a snapshot may be at most; all zero: the values in brackets. */
struct snapshot_limits {
    uint64_t bytes;      /**< of all files together (SNAPSHOT_BYTES_MOST, 256 MiB) */
    uint64_t file_bytes; /**< of one file (SNAPSHOT_FILE_MOST, 64 MiB) */
    uint64_t entries;    /**< files, directories and links (SNAPSHOT_ENTRIES_MOST, 20,000) */
};

struct snapshot {
    char id[SNAPSHOT_ID_BYTES]; /**< the SHA-256 of its list, in hexadecimal digits */
    uint64_t files, directories, links;
    uint64_t bytes;      /**< of all files */
    uint64_t new_bytes;  /**< of those that the store did not have */
    uint64_t left_out;   /**< entries that were left out, each directory once; */
    uint64_t secrets;    /**< of these, as they look like secrets */
    uint64_t owner_only; /**< files that were taken and that only their owner may read */
    uint64_t special;    /**< pipes, sockets, devices */
};

#define SNAPSHOT_OMISSIONS_MOST 10000
#define SNAPSHOT_WHY_BYTES      96

/** What was left out, and why; without .git/ and the like. */
struct snapshot_omission {
    char *path;                   /**< within the tree; a directory's ends with a slash */
    char why[SNAPSHOT_WHY_BYTES]; /**< "AWS credentials", "src/.gitignore" */
    bool secret;                  /**< it looks like one; otherwise a pattern of the user's has named it */
};

/** The first SNAPSHOT_OMISSIONS_MOST; all zero to begin with. */
struct snapshot_omissions {
    struct snapshot_omission *list;
    size_t count, room;
};

void snapshot_omissions_free(struct snapshot_omissions *omissions);

struct snapshot_options {
    const struct snapshot_limits *limits; /**< NULL: those above */
    bool outside;                         /**< look at what git says of the tree above it and in git's settings, too */
    /**
     * A program has changed the tree that is not trusted: the directory must not be a link itself, and where this process
     * is root, a file of another user than the directory's is an error (STATE): the program may have given another name
     * to what it cannot read.
     */
    bool foreign;
    bool *refused;                        /**< not NULL: a file that only its owner may read is an error (STATE), and
                                               this becomes true */
    struct snapshot_omissions *omissions; /**< to which is added what was left out; NULL: nobody asks */
};

/**
 * Take a snapshot of `directory` into `store`, which is made if it is missing. Errors: ARGUMENT for a directory that is none
 * or a snapshot above the limits, naming what is large and .weftignore; SYSTEM for what cannot be read or written;
 * DATA for a .weftignore that is wrong.
 */
weft_status snapshot_take(const char *store, const char *directory, const struct snapshot_limits *limits,
                          struct snapshot *snapshot, struct error *error);

/** The same, as `options` say. */
weft_status snapshot_take_with(const char *store, const char *directory, const struct snapshot_options *options,
                               struct snapshot *snapshot, struct error *error);

/**
 * Make the directory `target`, which must not exist yet or be empty, with what the snapshot `id` holds. Files are copies
 * (on file systems that can share blocks, cheap ones): writing to them changes no other. Each is checked on the way. A
 * failure leaves no `target`.
 */
weft_status snapshot_check_out(const char *store, const char *id, const char *target, struct error *error);

#endif
