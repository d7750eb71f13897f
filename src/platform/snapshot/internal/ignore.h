/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Patterns that name files and directories to leave out, as .gitignore and .weftignore have them, with git's meaning.
 *
 *     # a comment                 lines that are empty or begin with # say nothing
 *     *.log                       a name without a slash: anywhere below
 *     /data   runs/old            with a slash at the beginning or within: from the directory of the file only
 *     build/                      a slash at the end: directories only
 *     !keep.log                   taken in again; the last pattern that fits decides
 *     ?  *  [a-z0-9]  [!a-z]      one letter, any number, one of these, none of these; never a slash
 *     [[:alpha:]_]                classes: alnum alpha blank cntrl digit graph lower print punct space upper xdigit
 *     ** /name   a/ ** /b   a/ **     (without the spaces) any number of directories, as a whole part of a path
 *     \# \! \* \<space>           the letter itself; spaces at the end of a line count only so
 *
 * A pattern that is wrong, such as a set without its ']', matches nothing, as in git. Files in a directory that is left
 * out stay out: a caller that walks a tree skips it. The caller decides which file of patterns applies where
 * (platform/snapshot/internal/filter.h).
 *
 * Patterns are translated to regular expressions for PCRE2. A comparison that takes more than 100,000 steps counts as
 * no match: it needs a pattern with a dozen stars or more, and takes some ms. Thread-safe; a struct belongs to one
 * thread at a time.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_INTERNAL_IGNORE_H
#define WEFT_PLATFORM_SNAPSHOT_INTERNAL_IGNORE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define IGNORE_BYTES_MOST    ((size_t)256 << 10) /**< of a file of patterns */
#define IGNORE_PATTERNS_MOST 4096
#define IGNORE_PATTERN_MOST  1024 /**< bytes of a pattern */

struct ignore_rule;

/** All zero leaves nothing out. */
struct ignore {
    struct ignore_rule *rules;
    size_t count, room;
};

/**
 * Add the patterns in `size` bytes of text after those that are there; `where` names them in messages. Errors: DATA for
 * more than the limits above, naming the line; MEMORY.
 */
weft_status ignore_add(struct ignore *ignore, const char *text, size_t size, const char *where, struct error *error);
void ignore_free(struct ignore *ignore);

/** What the patterns say of a path. */
enum ignore_answer {
    IGNORE_UNNAMED,  /**< nothing */
    IGNORE_LEFT_OUT, /**< the last one that fits leaves it out */
    IGNORE_TAKEN,    /**< the last one that fits begins with '!' */
};

/**
 * What the patterns say of `path`, which is relative to the directory of their file ("a/b"), without looking at the
 * directories it is in. `*which`, if not NULL, is the pattern that decides, counted from 0.
 */
enum ignore_answer ignore_match(const struct ignore *ignore, const char *path, bool directory, size_t *which);

#endif
