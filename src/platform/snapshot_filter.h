/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a snapshot (snapshot.h) leaves out of a tree. The first of these that says something decides:
 *
 *   1. `.weftignore` in the directory of a file and in those above it up to the top, the innermost first. A pattern
 * with
 *      '!' takes files in that 2 to 4 would leave out.
 *   2. .git/ .hg/ .svn/ __pycache__/, and files known to hold secrets (secret_files.h)
 *   3. `.gitignore` likewise; where the top is in a git repository, also in the directories above it
 *   4. the repository's info/exclude, then the file that git's core.excludesFile names
 *
 * A repository that leaves out the top itself says nothing of it.
 *
 * What is in a directory that is left out stays out, as in git: to take in one file of it, take in the directory first.
 * All three kinds of files have git's language (ignore.h).
 *
 * A struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_FILTER_H
#define WEFT_PLATFORM_SNAPSHOT_FILTER_H

#include "platform/secret_files.h"

struct snapshot_filter;

enum snapshot_reason {
    SNAPSHOT_TAKEN,
    SNAPSHOT_TAKEN_BY_NAME, /**< a '!' in a .weftignore: whatever the file holds */
    SNAPSHOT_STANDARD,      /**< .git/ and the like */
    SNAPSHOT_PATTERN,       /**< a pattern of the user's */
    SNAPSHOT_SECRET,
};

struct snapshot_verdict {
    enum snapshot_reason reason;
    const char *why;                /**< "AWS credentials", "src/.gitignore"; stays until snapshot_filter_leave() */
    const struct secret_kind *kind; /**< SNAPSHOT_TAKEN: a secret if its content is (secret_content()) */
};

/**
 * Begin at the top of a tree, which is at `folder`. `outside`: look at what git says of it, too, which is above it and
 * in git's settings. Errors: those of ignore_add(), SYSTEM.
 */
weft_status snapshot_filter_open(const char *folder, bool outside, struct snapshot_filter **filter,
                                 struct error *error);
void snapshot_filter_close(struct snapshot_filter *filter);

/**
 * Go into a directory, open as `directory`, `path` within the tree ("" for the top), and read its files of patterns.
 * `check`, if not NULL, says whether one may be read. Errors: SYSTEM, DATA, those of `check`.
 */
weft_status snapshot_filter_enter(struct snapshot_filter *filter, int directory, const char *path,
                                  weft_status (*check)(void *context, int file, const char *path, struct error *error),
                                  void *context, struct error *error);
void snapshot_filter_leave(struct snapshot_filter *filter);

/** What becomes of `path`, in the directory that was entered last. */
struct snapshot_verdict snapshot_filter_judge(const struct snapshot_filter *filter, const char *path, bool folder);

#endif
