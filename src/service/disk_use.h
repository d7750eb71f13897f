/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What runs take on disk, measured by a thread, and which of them take more than they may.
 *
 * A run has its directory (code, checkpoints, whatever it writes there) and the journals of its nodes. Runs that are
 * under way are measured every second, and more rarely where that takes long: measuring takes 5 % of the thread's
 * time, or 25 % while the disk is full or fills. Ended ones are measured once.
 *
 * A run may take what it has asked for (`disk`), else the policy's `disk.run`, else half of what was free when it was
 * seen first. The runs of a project, ended ones that are not discarded included, may take the policy's `disk.project`
 * together. Who takes more is told by disk_use_next(): of a project that takes more than it may, those runs that grow.
 */
#ifndef WEFT_SERVICE_DISK_USE_H
#define WEFT_SERVICE_DISK_USE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_USE_SENTENCE_BYTES 400

struct disk_use_config {
    const char *folder;               /**< the state */
    const char *runs;                 /**< RUN in it is a run's directory */
    int64_t run_quota, project_quota; /**< of the policy, bytes; 0: none */
    void (*wake)(void *context);      /**< something is to be told; from the thread */
    void *context;
};

struct disk_use;

/** Errors: MEMORY, SYSTEM. */
weft_status disk_use_open(const struct disk_use_config *config, struct disk_use **use, struct error *error);

/** Start the thread; end it. NULL is allowed for those that end. */
weft_status disk_use_start(struct disk_use *use, struct error *error);
void disk_use_stop(struct disk_use *use);
void disk_use_close(struct disk_use *use);

/** A run that takes more than it may. */
struct disk_use_told {
    int64_t run;
    bool further; /**< it was told before, and has grown by a tenth since */
    char sentence[DISK_USE_SENTENCE_BYTES];
};

/** The next one that is to be told; false if there is none. From any thread, as all that follows. */
bool disk_use_next(struct disk_use *use, struct disk_use_told *told);

/** Report this run again, because it could not be stopped. */
void disk_use_repeat(struct disk_use *use, const struct disk_use_told *told);

/** Measure more often, or no longer so. */
void disk_use_hurry(struct disk_use *use, bool hurry);

/** Bytes that a run takes and may take (0: not known yet, no limit); false if it was not measured yet. */
bool disk_use_run(struct disk_use *use, int64_t run, uint64_t *bytes, uint64_t *quota);

/** Bytes of a project's runs as far as they were measured. */
uint64_t disk_use_project(struct disk_use *use, const char *project);

/** What the runs of a project may take together; 0: any amount. */
uint64_t disk_use_project_quota(const struct disk_use *use);

/** Whether a project may have another run. Errors: STATE, and what to do. */
weft_status disk_use_check(struct disk_use *use, const char *project, struct error *error);

/** The runs under way that take the most, "run 3 (12 GiB), run 7 (1 GiB)"; "" if none was measured. */
char *disk_use_largest(struct disk_use *use, char *text, size_t size);

#endif
