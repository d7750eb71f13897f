/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The disk, watched by the keeper: how much is free (disk_space.h), and which runs take more than they may
 * (disk_use.h).
 *
 * While the disk is full nothing is started and no submission is taken. A run that takes more than its quota is
 * stopped: with its grace period where there is room, at once while the disk is full or when it goes on growing. Where
 * the disk is full and no run takes more than it may, none is stopped; the server says so on standard error, with the
 * largest ones.
 */
#ifndef WEFT_SERVICE_DISK_WATCH_H
#define WEFT_SERVICE_DISK_WATCH_H

#include "platform/controller.h"
#include "service/complaint.h"
#include "service/disk_space.h"
#include "service/disk_use.h"

/** Zeroed, with the first two set; they outlive it. Of the keeper's thread. */
struct disk_watch {
    struct disk_space *space;
    struct disk_use *use;
    int64_t due;   /**< of the next look, on the monotonic clock */
    uint64_t free; /**< at the last look */
    bool full;
    struct complaint told;
};

/** Look how much is free, where that is due by `now`, in milliseconds of the monotonic clock. `troubled`: the registry
 * cannot be written, so that the reserve is given up on a full disk. Returns when to call it again. */
int64_t disk_watch_look(struct disk_watch *watch, bool troubled, int64_t now);

/** Heed what was seen, before a step. Errors: those of the controller, as after controller_step(). */
weft_status disk_watch_heed(struct disk_watch *watch, struct controller *controller, int64_t now, struct error *error);

/** Whether there is room for another run of the project. From any thread. Errors: SYSTEM, STATE, and what to do. */
weft_status disk_watch_check(const struct disk_watch *watch, const char *project, struct error *error);

#endif
