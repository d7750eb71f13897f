/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The directories of runs, made by threads, so that nobody waits for a large snapshot:
 *
 *     RUNS/12/work/          what its snapshot holds; where its command runs
 *     RUNS/12/checkpoints/   its WEFT_CHECKPOINT_DIR; of a fork, with the checkpoint in it that it begins from
 *
 * Each appears when it is whole: what a crash leaves has a name that ends in ".partial", and is made anew. They stay
 * from one attempt of the run to the next.
 *
 * Nobody but this process's user can enter the directory of a run, until it is given to the account that the order names,
 * with all in it. From then on nothing in it is made or mended any more: the account may have put anything
 * in the place of what was there.
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
    const char *account;    /**< whose all of it becomes (platform/registry/owner.h); "": it stays this process's */
    const char *owner;      /**< the user who may have files that nobody else may read in the snapshot; NULL: nobody */
};

/** Both are absolute; `snapshots` may be NULL where no run has one. Errors: MEMORY, SYSTEM. */
weft_status run_directories_open(const char *runs, const char *snapshots, struct run_directories **directories,
                                 struct error *error);

/** Waits for what is being made. NULL is allowed. */
void run_directories_close(struct run_directories *directories);

/** Readable when something has been made or has failed, until run_directories_hear(). */
int run_directories_descriptor(const struct run_directories *directories);
void run_directories_hear(struct run_directories *directories);

/**
 * Have the directories of a run made. `*made` if they are there: then `work` and `checkpoints` are set. Otherwise ask again
 * when the descriptor is readable. A failure is told once; asking again then tries again. Errors: those of
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
