/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The free space of the state directory, and what is kept of it for the server itself.
 *
 * The disk counts as full when less than the low-water mark is free: 2 % of the file system, at most 4 GiB, or the
 * reserve if that is larger. It stops being full when a quarter more than the mark is free. While the disk is full, the
 * server starts no runs and accepts no submissions, but stops and discards runs, and answers requests.
 *
 * Space that is allocated in advance lets it do so with no byte free:
 *
 * - blocks after the ends of the logs of platform.db and access.db, so that a commit needs no further space;
 * - a file, `reserve`, which is removed if a database cannot be written nevertheless. Half of it is given up if the
 *   server starts on a full disk: that space goes to the logs of all databases at once, before a program that fills
 *   the disk takes it. It is made again when there is space.
 *
 * The reserve has 64 MiB, or a sixteenth of a file system smaller than 1 GiB; each log has an eighth of that. Both are
 * allocated by fallocate(2). File systems that cannot allocate (NFS) or copy on write (btrfs, ZFS) allocate the space
 * of a log when it is written, so there only the removal of the reserve helps.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_SPACE_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_SPACE_H

#include "base/error.h"
#include "platform/store/database.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_TROUBLE_BYTES 256

struct disk_space;

/** Open for the state in `directory`, before its databases. `reserve`: bytes; 0: the default above. Errors: SYSTEM,
 * MEMORY. */
weft_status disk_space_open(const char *directory, int64_t reserve, struct disk_space **space, struct error *error);
void disk_space_close(struct disk_space *space);

/** Measure the free space, and allocate what is missing of the reserve and the logs. Returns whether the disk is full.
 * This and the next are for one thread at a time. */
bool disk_space_look(struct disk_space *space);

/** Remove the reserve, because something cannot be written. Does nothing unless the disk is full. */
void disk_space_give_up(struct disk_space *space);

/** Whether to try again to open a database, after `status`: removes a part of the reserve and clears `error`. */
bool disk_space_try_again(struct disk_space *space, weft_status status, struct error *error);

/** Before a database is closed: on a full disk, leave its log in place, so that its space is there at the next start.
 */
void disk_space_keep_log(struct disk_space *space, struct database *database);

/** As of the last look, or when it was opened. From any thread. */
struct disk_space_state {
    uint64_t size, free, low; /**< bytes: of the file system, for users that are not root, the low mark */
    bool full;
    char trouble[DISK_TROUBLE_BYTES]; /**< a message that says that it is full; "": it is not */
};
void disk_space_state(struct disk_space *space, struct disk_space_state *state);

#endif
