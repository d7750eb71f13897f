/* SPDX-License-Identifier: Apache-2.0 */
/** Jobs in Slurm's queue that are this platform's, by their comments. A struct belongs to one thread at a time. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_OWN_JOBS_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_OWN_JOBS_H

#include "platform/engine/slurm/internal/driver.h"
#include "platform/engine/slurm/internal/host_use.h"

#include <inttypes.h>

#define OWN_JOB_COMMENT    "weft:%s:%s:%" PRIu64 ":%s" /**< platform, run, epoch, mark */
#define OWN_JOB_USER_BYTES 64

/** As in struct slurm_job. Any user can give jobs such a comment: mark and user tell. */
struct own_job {
    struct attempt attempt;
    uint64_t id;
    enum slurm_job_state state;
    bool held;
    char comment[DRIVER_COMMENT_BYTES], user[OWN_JOB_USER_BYTES], state_word[48], reason[256];
    char *nodes; /**< of one that runs and holds a Pod; NULL for others */
};

struct own_jobs {
    struct own_job *list;
    size_t count, room;
};

/** Look at the queue, append the platform's jobs to an empty list, and count in `use` what they have of the nodes. Runs one command.
 * Errors: those of slurm_jobs(). */
weft_status own_jobs_look(struct slurm_commands *commands, const char *platform, struct host_use *use,
                          struct own_jobs *jobs, struct error *error);
void own_jobs_free(struct own_jobs *jobs);

/** Whether it is the attempt of a job that holds a Pod. */
bool own_jobs_hold_pod(const struct attempt *attempt);

#endif
