/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One process at a time: a lock on a file that names its holder. The kernel releases it when that process ends, however
 * it ends. (A child that was forked but had not called exec when its parent was killed holds the lock a little longer;
 * lock_take() waits for it, up to two seconds.)
 */
#ifndef WEFT_BASE_FILE_LOCK_H
#define WEFT_BASE_FILE_LOCK_H

#include "base/error.h"

/**
 * Lock the file at `path`, created with `mode` if it is missing, and write "process 12 on host" and a newline to it.
 * close() of *descriptor releases the lock; the file stays. The descriptor's offset is after that line: the caller may
 * write more, and must sync the file if others read it after a crash.
 *
 * `use` describes the purpose of the lock in the message of WEFT_ERROR_STATE, returned when another process holds it:
 * "another process (process 12 on host) is USE; stop it or choose another directory". WEFT_ERROR_SYSTEM if the file
 * cannot be created, locked or written.
 */
weft_status lock_take(const char *path, unsigned mode, const char *use, int *descriptor, struct error *error);

#endif
