/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checkpoints of a run, in RUN/checkpoints (its WEFT_CHECKPOINT_DIR). Each complete entry of that directory counts: Weft's
 * own (training/checkpoint/checkpoint.h), and files and directories of other programs. Hidden names are ignored, and names
 * that end in ".partial", ".old" or ".tmp", which are being written.
 *
 * The program that writes the directory is not trusted. The only links followed are those in the directory to a
 * checkpoint beside them ("best"), and only regular files and directories are opened. Thread-safe.
 */
#ifndef WEFT_PLATFORM_RUNS_CHECKPOINTS_H
#define WEFT_PLATFORM_RUNS_CHECKPOINTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_CHECKPOINT_NAME_BYTES 256
#define RUN_CHECKPOINTS_MOST      10000 /**< of a directory that are looked at */

struct run_checkpoint {
    char name[RUN_CHECKPOINT_NAME_BYTES];
    int64_t time;   /**< of its last change, milliseconds since 1970 */
    uint64_t bytes; /**< of its files; of more than 10,000 files, those of the first ones */
    int64_t step;   /**< by its name ("step-00000200", "checkpoint-500", "epoch=3-step=90.ckpt"); -1: it tells none */
    bool best;      /**< the link "best" leads to it */
};

/** All in `directory`, the newest first; `*list` is to be freed. A directory that is not there has none. */
weft_status run_checkpoints_list(const char *directory, struct run_checkpoint **list, size_t *count,
                                 struct error *error);

/**
 * The checkpoint that `name` means: itself, or the one that it is a link to. Errors: ARGUMENT where there is none, with
 * a message that names the newest there is.
 */
weft_status run_checkpoint_find(const char *directory, const char *name, char found[RUN_CHECKPOINT_NAME_BYTES],
                                struct error *error);

/**
 * Copy the checkpoint `name` of `directory` into the directory `target`, under its own name, for a run whose files will be
 * `owner`'s. The files of Weft's own checkpoints, which are never written again, become links to the same files where
 * they are that one's already; all others share blocks where the file system can, and are copied elsewhere. It is on
 * disk and whole when this returns, or not there: a checkpoint that is removed or replaced meanwhile is an error
 * (STATE), and so is, for a process that is root, one with files in it that are not of the owner of `directory`: that one
 * may have been given names of files that it cannot read. Errors: as run_checkpoint_find(); SYSTEM.
 */
weft_status run_checkpoint_copy(const char *directory, const char *name, const char *target, uid_t owner,
                                struct error *error);

#endif
