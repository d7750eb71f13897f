/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The disk of the state, in three parts: its free space, the disk use of runs, and the watch that acts on both.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_DISK_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_DISK_H

#include "platform/controller/controller.h"
#include "platform/service/internal/complaint.h"
#include "platform/store/database.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- free space ---- */

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

/* ---- use ---- */

/**
 * Disk use of runs, measured by a thread, and the runs that are over their quota.
 *
 * A run's use is that of its directory (code, checkpoints, whatever it writes there) and of its nodes' journals. Runs
 * that have not ended are measured every second, or less often if that takes long: measuring takes at most 5 % of the
 * thread's time, or 25 % while the disk is full or fills up. Ended runs are measured once.
 *
 * A run's quota is what it asked for (`disk`), else the policy's `disk.run`, else half of what was free when it was
 * first measured. The policy's `disk.project` is the quota of all runs of a project together, including ended ones that
 * are not discarded. disk_use_next() returns the runs to stop: those over their quota, and, of a project over its
 * quota, those that keep growing.
 */

#define DISK_USE_SENTENCE_BYTES 400

struct disk_use_config {
    const char *directory;            /**< the state */
    const char *runs;                 /**< RUN in it is a run's directory */
    int64_t run_quota, project_quota; /**< of the policy, bytes; 0: none */
    void (*wake)(void *context);      /**< disk_use_next() has a run; called by the thread */
    void *context;
};

struct disk_use;

/** Errors: MEMORY, SYSTEM. */
weft_status disk_use_open(const struct disk_use_config *config, struct disk_use **use, struct error *error);

/** Start the thread; end it. disk_use_stop() and disk_use_close() accept NULL. */
weft_status disk_use_start(struct disk_use *use, struct error *error);
void disk_use_stop(struct disk_use *use);
void disk_use_close(struct disk_use *use);

/** A run over its quota, or one that grows in a project over its quota. */
struct disk_use_told {
    int64_t run;
    bool further; /**< it was returned before, and has grown by a tenth since */
    char message[DISK_USE_SENTENCE_BYTES];
};

/** The next run to stop; false if there is none. From any thread, like all that follow. */
bool disk_use_next(struct disk_use *use, struct disk_use_told *told);

/** Return this run again, because it could not be stopped. */
void disk_use_repeat(struct disk_use *use, const struct disk_use_told *told);

/** Measure more often, or as usual. */
void disk_use_hurry(struct disk_use *use, bool hurry);

/** A run's use and quota in bytes (quota 0: no limit); false if it was not measured yet. */
bool disk_use_run(struct disk_use *use, int64_t run, uint64_t *bytes, uint64_t *quota);

/** Bytes of a project's runs that were measured. */
uint64_t disk_use_project(struct disk_use *use, const char *project);

/** The quota of the runs of a project together; 0: none. */
uint64_t disk_use_project_quota(const struct disk_use *use);

/** Whether a project may submit another run. Errors: STATE if it is over its quota. */
weft_status disk_use_check(struct disk_use *use, const char *project, struct error *error);

/** The largest runs that have not ended, "run 3 (12 GiB), run 7 (1 GiB)"; "" if none was measured. */
char *disk_use_largest(struct disk_use *use, char *text, size_t size);

/* ---- the watch ---- */

/**
 * Watches the disk for the writer: its free space and the disk use of runs.
 *
 * While the disk is full, no run starts and no submission is accepted. A run over its quota is stopped with its grace
 * period, or killed if it keeps growing or the disk is full. If the disk is full and no run is over its quota, none is
 * stopped; the server names the largest ones on standard error.
 */

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
