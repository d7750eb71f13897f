/* SPDX-License-Identifier: Apache-2.0 */
/** The jobs that run on this machine (observe/inspect/inspection.h), for `weft ps --local`. */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_LOCAL_JOBS_H
#define WEFT_CLI_PLATFORM_LAUNCH_LOCAL_JOBS_H

#include "observe/inspect/inspection.h"

#include <stdio.h>

struct local_jobs {
    struct inspection inspection;
    bool all;        /**< also those of other users */
    char own[64];    /**< the caller's user name */
    uint32_t count;  /**< jobs shown */
    uint32_t others; /**< jobs of other users, not shown */
};

/** Find the caller's jobs, or with `all` every job that the caller may see. Errors: as inspection_open(). */
weft_status local_jobs_open(bool all, struct local_jobs *jobs, struct error *error);
void local_jobs_close(struct local_jobs *jobs);

/** Print the jobs as a table, or as a line of JSON each. */
void local_jobs_print(const struct local_jobs *jobs, bool json, FILE *output);

#endif
