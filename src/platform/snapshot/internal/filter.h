/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which files a snapshot (snapshot.h) leaves out. For each file, the first of these rules that matches decides:
 *
 *   1. `.weftignore` in the file's directory and in its parents up to the top, innermost first; '!PATTERN' includes
 *      files that 2 to 4 would leave out
 *   2. .git/ .hg/ .svn/ __pycache__/, and files known to hold secrets (secret_files.h)
 *   3. `.gitignore` likewise; if the top is in a git repository, also in the directories above it
 *   4. the repository's info/exclude, then the file that git's core.excludesFile names
 *
 * If the repository ignores the top itself, its patterns do not apply.
 *
 * Files in an excluded directory stay out, as in git: to include one, include the directory first. All of these files
 * use git's pattern syntax (ignore.h).
 *
 * A struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_INTERNAL_FILTER_H
#define WEFT_PLATFORM_SNAPSHOT_INTERNAL_FILTER_H

#include "platform/snapshot/internal/secret_files.h"
#include "platform/snapshot/snapshot.h"

struct snapshot_filter;

enum snapshot_reason {
    SNAPSHOT_TAKEN,
    SNAPSHOT_TAKEN_BY_NAME, /**< by a '!' in a .weftignore, whatever its content */
    SNAPSHOT_STANDARD,      /**< .git/ and the like */
    SNAPSHOT_PATTERN,       /**< a pattern of the user matched */
    SNAPSHOT_SECRET,
};

struct snapshot_verdict {
    enum snapshot_reason reason;
    char why[SNAPSHOT_WHY_BYTES];   /**< it is left out: "AWS credentials", "src/.gitignore" */
    const struct secret_kind *kind; /**< SNAPSHOT_TAKEN: the name may be that of a secret; secret_content() decides */
};

/**
 * Begin at the top of a tree, which is at `directory`. `outside`: also apply ignore files above it and in git's
 * settings. Errors: those of ignore_add(), SYSTEM.
 */
weft_status snapshot_filter_open(const char *directory, bool outside, struct snapshot_filter **filter,
                                 struct error *error);
void snapshot_filter_close(struct snapshot_filter *filter);

/**
 * Enter the directory that is open as `directory`, `path` within the tree ("" for the top), and read its ignore files.
 * `check`, if not NULL, is called with each before it is read. Errors: SYSTEM, DATA, those of `check`.
 */
weft_status snapshot_filter_enter(struct snapshot_filter *filter, int directory, const char *path,
                                  weft_status (*check)(void *context, int file, const char *path, struct error *error),
                                  void *context, struct error *error);
void snapshot_filter_leave(struct snapshot_filter *filter);

/** Judge `path`, which is in the directory that was entered last. */
struct snapshot_verdict snapshot_filter_judge(const struct snapshot_filter *filter, const char *path, bool directory);

#endif
