/* SPDX-License-Identifier: Apache-2.0 */
/** Refuses snapshots of home directories, system directories and directories of secrets. */
#ifndef WEFT_PLATFORM_SNAPSHOT_PLACE_H
#define WEFT_PLATFORM_SNAPSHOT_PLACE_H

#include "base/error.h"

/**
 * Check that `directory` is a project's directory. Refused: the home of this user ($HOME and the passwd entry) and of
 * the directory's owner, directories above these homes, system directories such as / and /tmp, and directories of
 * secrets such as ~/.ssh (secret_files.h). Errors: ARGUMENT, with what to do; SYSTEM. Thread-safe.
 */
weft_status snapshot_place_check(const char *directory, struct error *error);

#endif
