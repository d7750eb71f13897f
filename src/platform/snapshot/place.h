/* SPDX-License-Identifier: Apache-2.0 */
/** Directories of which no snapshot is taken as a whole: homes, those of the system, and those of secrets. */
#ifndef WEFT_PLATFORM_SNAPSHOT_PLACE_H
#define WEFT_PLATFORM_SNAPSHOT_PLACE_H

#include "base/error.h"

/**
 * See that `directory` is a project's directory: not the home of this user ($HOME and what the machine says) or of the
 * directory's owner, no directory above these, none of the system such as / or /tmp, and none of secrets such as ~/.ssh
 * (secret_files.h). Errors: ARGUMENT, saying what to do; SYSTEM. Thread-safe.
 */
weft_status snapshot_place_check(const char *directory, struct error *error);

#endif
