/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files and directories: read whole, map, write atomically. Thread-safe (a struct belongs to one thread at a time).
 *
 * After a crash a written file is either complete or absent: the content goes to a temporary name in the same
 * directory, is synced and renamed over the final name, and the directory is synced. The message about a full disk
 * names path and bytes.
 */
#ifndef WEFT_BASE_FILE_FILE_H
#define WEFT_BASE_FILE_FILE_H

#include "base/error.h"

#include <dirent.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_PATH_BYTES PATH_MAX /**< room for any path, its final NUL included */

/**
 * The directory of this user's program state: ${XDG_STATE_HOME:-~/.local/state}/weft/`name`; it is not created. Errors:
 * ARGUMENT if neither XDG_STATE_HOME nor HOME is an absolute path: the XDG specification says to ignore relative ones.
 */
weft_status file_state_directory(char path[FILE_PATH_BYTES], const char *name, struct error *error);

/** Write "directory/name" to `path`. Errors: ARGUMENT if that is longer than FILE_PATH_BYTES. */
weft_status file_join(char path[FILE_PATH_BYTES], const char *directory, const char *name, struct error *error);

/** The part of `path` after its last slash; points into `path`. */
const char *file_name(const char *path);

/** Whether `path` exists; whether it is a directory. A path that cannot be examined counts as absent. */
bool file_exists(const char *path);
bool file_is_directory(const char *path);

/** Whether two paths lead to the same file or directory, which exists. */
bool file_is_same(const char *path, const char *other);

/**
 * Read the whole file at `path`, at most `most` bytes, into `*content`, which the caller frees. A NUL byte (not counted
 * in `*size`) follows the content, so that a text can be used as a string. Works for pipes and /proc too.
 * Errors: SYSTEM if it cannot be read; DATA if it is larger than `most`.
 */
weft_status file_read(const char *path, size_t most, char **content, size_t *size, struct error *error);

/**
 * Read the beginning of the file at `path`, at most `size` - 1 bytes, and a NUL after it, into `text`, without
 * allocating: for small kernel files that are read many times a second. `directory` is the descriptor of the directory
 * where a relative path begins, or AT_FDCWD. Returns the bytes, or -1 and an empty text, with errno set. Does not wait
 * for a pipe's other end.
 */
ssize_t file_read_small(int directory, const char *path, char *text, size_t size);

/**
 * Open the regular file at `path` for reading; `*size` receives its bytes. Anything else is refused without blocking:
 * opening a named pipe would wait for a writer. Errors: SYSTEM; ARGUMENT if it is not a regular file.
 */
weft_status file_open(const char *path, int *descriptor, uint64_t *size, struct error *error);

/**
 * Read bytes [offset, offset + size) of an open file. `path` and `opened_size`, its bytes when it was opened, are for
 * messages. Errors: SYSTEM; DATA if it has become shorter and does not have them any more.
 */
weft_status file_read_at(int descriptor, const char *path, uint64_t opened_size, uint64_t offset, void *bytes,
                         uint64_t size, struct error *error);

/** A file mapped read-only. `bytes` is NULL when the file is empty. */
struct file_map {
    const uint8_t *bytes;
    uint64_t size;
};

/**
 * Map the regular file at `path`. Its content is read from disk when touched; a file that another process shortens
 * meanwhile ends this process by SIGBUS, so map only files that are replaced, not rewritten.
 */
weft_status file_map(const char *path, struct file_map *map, struct error *error);

/**
 * Release the memory that `size` bytes of a map occupy, after they were read and before they may be read again: a large
 * file that is scanned then does not count as this process's memory.
 */
void file_map_let_go(const void *bytes, uint64_t size);

/** Undo file_map(); harmless on an empty or zeroed struct. */
void file_unmap(struct file_map *map);

/** A file being written from front to back. Begin with file_writer_open(); end with close or discard. */
struct file_writer {
    int descriptor;
    uint64_t written;  /**< bytes so far */
    uint64_t expected; /**< bytes in the end, for the message about a full disk; 0: not known */
    char *block;       /**< bytes that wait to be a block, past the page cache; NULL: through it */
    size_t held;       /**< so many */
    char path[FILE_PATH_BYTES];
};

/**
 * Create or truncate the file at `path`. It is not atomic by itself: use a name that no reader looks for, and rename.
 */
weft_status file_writer_open(struct file_writer *writer, const char *path, uint64_t expected, struct error *error);

/** Create a file with a new name (".NAME.partial-" and random digits) in the directory of `path`. */
weft_status file_writer_open_beside(struct file_writer *writer, const char *path, uint64_t expected,
                                    struct error *error);

/**
 * Before the first append: write past the page cache (O_DIRECT), in blocks, where the file system can. For large files
 * that are not read soon: a fifth of the processor time, no memory of the cache, and fsync() has little left to do.
 */
void file_writer_bypass_cache(struct file_writer *writer);

/** Append `size` bytes. After an error call file_writer_discard(). */
weft_status file_writer_append(struct file_writer *writer, const void *bytes, size_t size, struct error *error);

/** Sync to disk and close; on an error the file is removed. */
weft_status file_writer_close(struct file_writer *writer, struct error *error);

/** The same, and rename it to `path` in the same directory, replacing a file there. */
weft_status file_writer_close_as(struct file_writer *writer, const char *path, struct error *error);

/** Close and remove the file; harmless after close. */
void file_writer_discard(struct file_writer *writer);

/** Write `size` bytes to `path` atomically: a reader, and a crash, finds the old content or the new, whole. */
weft_status file_write(const char *path, const void *content, size_t size, struct error *error);

/** close(2); harmless if `descriptor` is negative. Leaves errno as it is. */
void file_close(int descriptor);

/** List the directory `path`, relative to `parent`; `flags` are more flags for open(). NULL: errno says why not. */
DIR *file_listing_open(int parent, const char *path, int flags);

/**
 * The next name in it but "." and "..", valid until the next call. NULL at the end, with errno 0; if it cannot be read,
 * with errno; and if `listing` is NULL, with errno as it is.
 */
const char *file_listing_next(DIR *listing);

/** Harmless on NULL; leaves errno as it is. */
void file_listing_close(DIR *listing);

/** Make the directory `path` and the directories above it that are missing. */
weft_status file_make_directory(const char *path, struct error *error);

/** The same for the directory of the file at `path`. */
weft_status file_make_directory_of(const char *path, struct error *error);

/** Sync the directory `path`, so that names made, renamed or removed in it survive a power cut. */
weft_status file_sync_directory(const char *path, struct error *error);

/**
 * Remove the file or directory `path` with its contents; a missing one is not an error. Links are not followed, not
 * even one that replaces a directory meanwhile. Directories more than 2048 deep are an error.
 */
weft_status file_remove_tree(const char *path, struct error *error);

/**
 * Bytes that the directory `path` and everything in it take on its disk; nothing there: 0. Links are not followed, and
 * each name of a file with several counts a share. Directories more than 512 deep are ignored. False: it cannot be
 * read, or `*stop` (NULL: never) has become true.
 */
bool file_tree_bytes(const char *path, const atomic_bool *stop, uint64_t *bytes);

#endif
