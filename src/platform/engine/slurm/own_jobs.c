/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/own_jobs.h"

#include "base/array.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct own_looking {
    const char *platform;
    struct host_use *use;
    struct own_jobs *jobs;
    weft_status status;
    struct error *error;
};

bool own_jobs_hold_pod(const struct attempt *attempt)
{
    return strncmp(attempt->run, DRIVER_POD, sizeof DRIVER_POD - 1) == 0;
}

/* The attempt that a comment names, if it is one of this platform's. */
static bool read_comment(const char *own, const char *comment, struct attempt *attempt)
{
    char copy[DRIVER_COMMENT_BYTES], *rest = copy;
    int64_t epoch;
    if (snprintf(copy, sizeof copy, "%s", comment) >= (int)sizeof copy)
        return false;
    const char *weft = strsep(&rest, ":"), *platform = strsep(&rest, ":"), *run = strsep(&rest, ":"),
               *number = strsep(&rest, ":");
    if (!number || strcmp(weft, "weft") != 0 || strcmp(platform, own) != 0 ||
        text_parse_integer(number, "epoch", 1, INT64_MAX, &epoch, NULL) != WEFT_OK)
        return false;
    *attempt = (struct attempt){.epoch = (uint64_t)epoch};
    snprintf(attempt->run, sizeof attempt->run, "%s", run);
    return attempt_is_valid(attempt);
}

static bool see_job(void *context, const struct slurm_job *job)
{
    struct own_looking *looking = context;
    struct own_jobs *jobs = looking->jobs;
    struct attempt attempt;
    if (!read_comment(looking->platform, job->comment, &attempt))
        return true;
    if (job->state != SLURM_JOB_PENDING && job->state != SLURM_JOB_ENDED)
        host_use_count(looking->use, job, own_jobs_hold_pod(&attempt));
    looking->status = ARRAY_RESERVE(jobs->list, jobs->room, jobs->count + 1, "jobs", looking->error);
    if (looking->status != WEFT_OK)
        return false;
    struct own_job *own = &jobs->list[jobs->count++];
    *own = (struct own_job){.attempt = attempt, .id = job->id, .state = job->state, .held = job->held};
    snprintf(own->comment, sizeof own->comment, "%s", job->comment);
    snprintf(own->user, sizeof own->user, "%s", job->user);
    snprintf(own->state_word, sizeof own->state_word, "%s", job->state_word);
    snprintf(own->reason, sizeof own->reason, "%s", job->reason);
    if (job->state == SLURM_JOB_RUNNING && own_jobs_hold_pod(&attempt))
        own->nodes = strdup(job->nodes);
    return true;
}

weft_status own_jobs_look(struct slurm_commands *commands, const char *platform, struct host_use *use,
                          struct own_jobs *jobs, struct error *error)
{
    struct own_looking looking = {platform, use, jobs, WEFT_OK, error};
    const weft_status status = slurm_jobs(commands, see_job, &looking, error);
    return status == WEFT_OK ? looking.status : status;
}

void own_jobs_free(struct own_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        free(jobs->list[i].nodes);
    free(jobs->list);
    *jobs = (struct own_jobs){0};
}
