/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One process at a time: a lock on a file that says who has it, which the kernel takes back when that process ends,
 * however it ends. (A child that was forked and not yet exec'd when its parent was killed has the lock for moments
 * more: lock_take() waits for that one, two seconds at most.)
 */
#ifndef WEFT_BASE_FILE_LOCK_H
#define WEFT_BASE_FILE_LOCK_H

#include "base/error.h"

/**
 * Lock the file at `path`, made with `mode` if there is none, and write "process 12 on host" and a newline in it.
 * close() of *descriptor gives the lock back; the file stays. The descriptor is behind that line: the caller may write
 * more, and syncs the file where others are to read it after a crash.
 *
 * `use` is what the lock is for, as in "another process (process 12 on host) is USE; stop it or choose another directory":
 * the message of WEFT_ERROR_STATE, when another one has it. WEFT_ERROR_SYSTEM if the file cannot be made, locked or
 * written.
 */
weft_status lock_take(const char *path, unsigned mode, const char *use, int *descriptor, struct error *error);

#endif
