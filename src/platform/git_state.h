/* SPDX-License-Identifier: Apache-2.0 */
/** What git says of a folder. Thread-safe. */
#ifndef WEFT_PLATFORM_GIT_STATE_H
#define WEFT_PLATFORM_GIT_STATE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * The commit that `folder`'s repository is at, "" if it is in none, has none yet, or git is missing or takes longer
 * than ten seconds; and whether files of the folder differ from it or are new (what .gitignore names does not count).
 */
void git_state_read(const char *folder, char *commit, size_t room, bool *dirty);

#endif
