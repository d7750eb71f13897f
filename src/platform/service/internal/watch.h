/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Watches the disk for the writer: its free space (platform/service/internal/space.h) and the disk use of runs (platform/service/internal/use.h).
 *
 * While the disk is full, no run starts and no submission is accepted. A run over its quota is stopped with its grace
 * period, or killed if it keeps growing or the disk is full. If the disk is full and no run is over its quota, none is
 * stopped; the server names the largest ones on standard error.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_WATCH_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_WATCH_H

#include "platform/controller/controller.h"
#include "platform/service/internal/complaint.h"
#include "platform/service/internal/space.h"
#include "platform/service/internal/use.h"

/** Zeroed, with the first two set; they outlive it. Of the writer's thread. */
struct disk_watch {
    struct disk_space *space;
    struct disk_use *use;
    int64_t due;   /**< of the next look, on the monotonic clock */
    uint64_t free; /**< at the last look */
    bool full;
    struct complaint told;
};

/** Measure the free space if that is due at `now`, in milliseconds of the monotonic clock. `troubled`: the registry
 * cannot be written, so the reserve is removed if the disk is full. Returns when to call this again. */
int64_t disk_watch_look(struct disk_watch *watch, bool troubled, int64_t now);

/** Tell the controller whether the disk is full, and have it stop runs over their quota. Call it before a step. Errors:
 * those of the controller; a run that could not be stopped is tried again at the next call. */
weft_status disk_watch_heed(struct disk_watch *watch, struct controller *controller, int64_t now, struct error *error);

/** Whether there is space for another run of the project. From any thread. Errors: SYSTEM if the disk is full, STATE if
 * the project is over its quota. */
weft_status disk_watch_check(const struct disk_watch *watch, const char *project, struct error *error);

#endif
