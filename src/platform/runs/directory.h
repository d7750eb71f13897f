/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Directories of runs, made by threads because a snapshot may be large:
 *
 *     RUNS/12/work/          the snapshot; where the command runs
 *     RUNS/12/checkpoints/   WEFT_CHECKPOINT_DIR; for a fork, with the checkpoint that it begins from
 *
 * A directory appears when it is complete. A crash leaves a name that ends in ".partial", which is made again. The
 * directories stay from one attempt of the run to the next.
 *
 * Only this process's user can enter the directory of a run until it is given, with all of its contents, to the account
 * in the order. After that it is not modified any more, because the account may have replaced anything in it.
 */
#ifndef WEFT_PLATFORM_RUNS_DIRECTORY_H
#define WEFT_PLATFORM_RUNS_DIRECTORY_H

#include "base/file/file.h"

#include <stdbool.h>
#include <stdint.h>

struct run_directories;

struct run_directory_order {
    int64_t run, parent;
    const char *project;    /**< whose store has the snapshot: SNAPSHOTS/PROJECT (snapshot.h) */
    const char *snapshot;   /**< "": none, the directory is empty */
    const char *checkpoint; /**< of the parent (platform/runs/checkpoints.h); "": none */
    const char *account;    /**< the future owner (platform/registry/owner.h); "": this process's user */
    const char *owner;      /**< the user whose private files the snapshot may contain; NULL: nobody */
};

/** Both are absolute; `snapshots` may be NULL where no run has one. Errors: MEMORY, SYSTEM. */
weft_status run_directories_open(const char *runs, const char *snapshots, struct run_directories **directories,
                                 struct error *error);

/** Waits for directories being made. NULL is allowed. */
void run_directories_close(struct run_directories *directories);

/** Readable when a directory was made or has failed, until run_directories_hear(). */
int run_directories_descriptor(const struct run_directories *directories);
void run_directories_hear(struct run_directories *directories);

/**
 * Make the directories of a run. If `*made`, `work` and `checkpoints` are set. Otherwise call again when the descriptor is
 * readable. A failure is returned once; the next call tries again. Errors: those of
 * snapshot_check_out(), run_checkpoint_copy() and run_owner_give(); DATA for a checkpoint of no parent; STATE for the
 * directory of a run that belongs to another account.
 */
weft_status run_directories_make(struct run_directories *directories, const struct run_directory_order *order,
                                 bool *made, char work[FILE_PATH_BYTES], char checkpoints[FILE_PATH_BYTES],
                                 struct error *error);

/** "RUNS/12/NAME". */
weft_status run_directory_path(const char *runs, int64_t run, const char *name, char path[FILE_PATH_BYTES],
                               struct error *error);

#endif
