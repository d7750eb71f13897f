/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The list of a snapshot's entries, as bytes:
 *
 *     "weft-snapshot 1\n", then for each entry, sorted by path, one of
 *     "d PATH\0"                       a directory
 *     "f SHA256 SIZE PATH\0"           a file; "x ..." an executable one; "p ..." and "q ..." the same, owner-only
 *     "l TARGET\0PATH\0"               a symbolic link
 *
 * Paths are relative and have no empty part, no "." and no "..". The directories that an entry is in come before it and
 * are entries of kind "d". Other lists are refused, so a check-out cannot leave its target.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_LIST_H
#define WEFT_PLATFORM_SNAPSHOT_LIST_H

#include "base/sha256.h"
#include "core/control/wire/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_LIST_MOST ((size_t)256 << 20) /**< bytes of a list */

struct snapshot_entry {
    char kind;          /**< 'd', 'f', 'x', 'p', 'q' or 'l' */
    const char *path;   /**< points into the bytes of the list, or is the caller's */
    const char *target; /**< where a link points */
    uint64_t size;      /**< bytes of a file */
    char hash[SHA256_TEXT_BYTES];
};

static inline bool snapshot_entry_is_private(const struct snapshot_entry *entry)
{
    return entry->kind == 'p' || entry->kind == 'q';
}

static inline bool snapshot_entry_is_file(const struct snapshot_entry *entry)
{
    return entry->kind == 'f' || entry->kind == 'x' || snapshot_entry_is_private(entry);
}

static inline bool snapshot_entry_is_program(const struct snapshot_entry *entry)
{
    return entry->kind == 'x' || entry->kind == 'q';
}

/**
 * Begin a list, append an entry. Paths must be sorted by their parts: a directory comes right before what is in it.
 * `buffer->failed` is set where memory ran out.
 */
void snapshot_list_begin(struct buffer *buffer);
void snapshot_list_put(struct buffer *buffer, const struct snapshot_entry *entry);

/** A reader of a list. */
struct snapshot_list {
    const char *bytes;
    size_t size, at;
    const char *where;    /**< names the list in messages */
    const char *before;   /**< the last path read */
    char directory[4096]; /**< the last directory read */
};

/** Begin to read; `bytes` must stay valid while entries are used. Errors: DATA. */
weft_status snapshot_list_open(struct snapshot_list *list, const char *bytes, size_t size, const char *where,
                               struct error *error);

/** Read the next entry; `*found` is false after the last. Errors: DATA; the message names the byte. */
weft_status snapshot_list_next(struct snapshot_list *list, struct snapshot_entry *entry, bool *found,
                               struct error *error);

/**
 * Count the owner-only entries, and write the paths of the first few to `names`: "'a', 'b' and 3 more"; "" if there are
 * none. Errors: DATA.
 */
weft_status snapshot_list_private(const char *bytes, size_t size, const char *where, uint64_t *count, char *names,
                                  size_t room, struct error *error);

#endif
