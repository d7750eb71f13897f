/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The list of what a snapshot holds, as bytes:
 *
 *     "weft-snapshot 1\n", then for each entry, sorted by path, one of
 *     "d PATH\0"                       a directory
 *     "f SHA256 SIZE PATH\0"           a file; "x ..." one that is executable; "p ..." and "q ..." the same that only
 *                                      their owner may read
 *     "l TARGET\0PATH\0"               a symbolic link
 *
 * Paths are relative and have no empty part, no "." and no ".."; the directories that an entry is in stand before it, and
 * are directories. A list that is not like that is refused, so a check-out cannot leave its target.
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
    const char *path;   /**< points into what was read, or is the caller's */
    const char *target; /**< of a link */
    uint64_t size;      /**< of a file */
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

/** Reading a list from front to back. */
struct snapshot_list {
    const char *bytes;
    size_t size, at;
    const char *where;    /**< names the list in messages */
    const char *before;   /**< the path read last */
    char directory[4096]; /**< the directory that it is or is in */
};

/** Begin to read; `bytes` must stay as long as the entries are used. Errors: DATA. */
weft_status snapshot_list_open(struct snapshot_list *list, const char *bytes, size_t size, const char *where,
                               struct error *error);

/** The next entry; `*found` is false behind the last one. Errors: DATA, naming the byte. */
weft_status snapshot_list_next(struct snapshot_list *list, struct snapshot_entry *entry, bool *found,
                               struct error *error);

/**
 * Count the entries that only their owner may read, and write the paths of the first few to `names`, as "'a', 'b' and
 * 3 more"; "" if there are none. Errors: DATA.
 */
weft_status snapshot_list_private(const char *bytes, size_t size, const char *where, uint64_t *count, char *names,
                                  size_t room, struct error *error);

#endif
