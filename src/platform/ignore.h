/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Patterns that name files and folders to leave out, as .weftignore has them: a part of gitignore's language, with
 * git's meaning.
 *
 *     # a comment                 lines that are empty or begin with # say nothing
 *     *.log                       a name without a slash: anywhere below
 *     /data   runs/old            with a slash at the beginning or within: from the top only
 *     build/                      a slash at the end: folders only
 *     !keep.log                   taken in again; the last pattern that fits decides
 *     ?  *  [a-z0-9]  [!a-z]      one letter, any number, one of these, none of these; never a slash
 *     ** /name   a/ ** /b   a/ **     (without the blanks) any number of folders, as a whole part of a path
 *     \# \! \* \<blank>           the letter itself; blanks at the end of a line count only so
 *
 * What is in a folder that is left out stays out, whatever the patterns say of it. Not taken over: classes such as
 * [[:alpha:]] (DATA), and files of patterns below the top. Matching takes time in proportion to pattern times path.
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_IGNORE_H
#define WEFT_PLATFORM_IGNORE_H

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
 * Add the patterns in `size` bytes of text behind those that are there; `where` names them in sentences. Errors: DATA,
 * naming the line; MEMORY.
 */
weft_status ignore_add(struct ignore *ignore, const char *text, size_t size, const char *where, struct error *error);
void ignore_free(struct ignore *ignore);

/**
 * Whether the patterns leave out `path`, which is relative to the top ("a/b"), without looking at the folders it is in.
 */
bool ignore_has(const struct ignore *ignore, const char *path, bool folder);

#endif
