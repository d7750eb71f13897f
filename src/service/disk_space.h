/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The free space of the state directory, and what is kept of it for the server itself.
 *
 * The disk counts as full when less than the low mark is free: the reserve, or 2 % of the file system where that is
 * more, 4 GiB at most. It has room again when a quarter more than that is free. While it is full the server starts no
 * runs and takes no submissions, but stops and discards runs, and answers.
 *
 * Two things make sure that it can do so when nothing at all is free:
 *
 * - Space behind the ends of the logs of platform.db and access.db, already allocated to them, which nobody else can
 *   take: a commit needs no further space.
 * - A file, `reserve`, which is removed when a database cannot be written in spite of that and when the server starts
 * on a full disk, and is made again when there is room.
 *
 * The reserve has 64 MiB, or a sixteenth of a file system smaller than 1 GiB; the logs have an eighth of that each.
 * Both are allocated by fallocate(2). Where a file system cannot do that (NFS), or copies on write (btrfs, ZFS), the
 * reserve is only as good as the time until it is given up: the space of a log there is allocated when it is written.
 */
#ifndef WEFT_SERVICE_DISK_SPACE_H
#define WEFT_SERVICE_DISK_SPACE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_TROUBLE_BYTES 256

struct disk_space;

/** Of the state in `folder`, before its databases are opened: on a full disk the reserve is given up for that.
 * `reserve`: bytes; 0: as above. Errors: SYSTEM, MEMORY. */
weft_status disk_space_open(const char *folder, int64_t reserve, struct disk_space **space, struct error *error);
void disk_space_close(struct disk_space *space);

/** Look how much is free, and make what is kept as large as it is to be. Of one thread at a time, as the next. */
bool disk_space_look(struct disk_space *space);

/** Remove the reserve, as something cannot be written. Does nothing while the disk is not full. */
void disk_space_give_up(struct disk_space *space);

/** As of the last look. From any thread. */
struct disk_space_state {
    uint64_t size, free, low; /**< bytes: of the file system, for users that are not root, the low mark */
    bool full;
    char trouble[DISK_TROUBLE_BYTES]; /**< a sentence that says that it is full; "": it is not */
};
void disk_space_state(struct disk_space *space, struct disk_space_state *state);

#endif
