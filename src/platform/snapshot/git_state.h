/* SPDX-License-Identifier: Apache-2.0 */
/** What git says of a directory. Thread-safe. */
#ifndef WEFT_PLATFORM_SNAPSHOT_GIT_STATE_H
#define WEFT_PLATFORM_SNAPSHOT_GIT_STATE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * The commit that `directory`'s repository is at, "" if it is in none, has none yet, or git is missing or takes longer
 * than ten seconds; and whether files of the directory differ from it or are new (what .gitignore names does not count).
 */
void git_state_read(const char *directory, char *commit, size_t room, bool *dirty);

/**
 * The files of patterns that git reads besides .gitignore: `exclude`, the info/exclude of the repository that `directory`
 * is in, and `global`, the user's core.excludesFile, which need not exist. "" where git is missing or knows none. Both
 * have `room` bytes.
 */
void git_state_excludes(const char *directory, char *exclude, char *global, size_t room);

#endif
