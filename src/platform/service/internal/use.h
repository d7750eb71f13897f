/* SPDX-License-Identifier: Apache-2.0 */
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
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_USE_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_USE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
