/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Backups of a server's state (docs/platform.md, "The state"): README.md has their format.
 *
 * What is made appears under its name when it is complete and on disk; after an error, or kill -9, there is nothing under
 * that name (kill -9 leaves a directory ".NAME.partial-XXXXXX" beside it). Thread-safe.
 */
#ifndef WEFT_PLATFORM_BACKUP_BACKUP_H
#define WEFT_PLATFORM_BACKUP_BACKUP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct backup_summary {
    uint64_t files, bytes; /**< the databases included */
    bool run_files;
    uint64_t left_out;        /**< files and directories of runs that could not be copied */
    char first_left_out[256]; /**< the first of them, below the state's directory; "" in a restored one */
    int64_t made;             /**< milliseconds since 1970 */
};

/**
 * Copy the state in the directory `state` to the new directory `backup`, while a server may run on it. Without
 * `run_files` the working directories and checkpoints of runs (`runs/`) are left out. For the server's user, or root,
 * who keeps the owners of files; the backup itself is open to that user alone. Files of runs that this process may not
 * read, or that are too deep, are left out and counted. Errors: STATE: `state` holds no state, or `backup` exists or
 * is inside it; SYSTEM; DATA: a database is damaged.
 */
weft_status backup_make(const char *state, const char *backup, bool run_files, struct backup_summary *summary,
                        struct error *error);

/**
 * Make the directory `state`, which is absent or empty and no mount point, from the backup in the directory `backup`. Errors: STATE: there
 * is something in `state`; DATA: `backup` is no backup, or a file of it is missing, damaged or was added (the message
 * names it); SYSTEM.
 */
weft_status backup_restore(const char *backup, const char *state, struct backup_summary *summary, struct error *error);

#endif
