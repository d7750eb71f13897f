/* SPDX-License-Identifier: Apache-2.0 */
/** Asks the git command about a directory. Thread-safe. */
#ifndef WEFT_PLATFORM_SNAPSHOT_GIT_STATE_H
#define WEFT_PLATFORM_SNAPSHOT_GIT_STATE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * The commit that is checked out in `directory`; "" if it is in no repository, there is no commit yet, or git is
 * missing or takes longer than ten seconds. `*dirty`: files of the directory differ from the commit or are new; ignored
 * files do not count.
 */
void git_state_read(const char *directory, char *commit, size_t room, bool *dirty);

/**
 * The ignore files that git reads besides .gitignore: `exclude`, the info/exclude of the repository of `directory`, and
 * `global`, the user's core.excludesFile. They need not exist. "" if git is missing or knows none. Both have `room`
 * bytes.
 */
void git_state_excludes(const char *directory, char *exclude, char *global, size_t room);

#endif
