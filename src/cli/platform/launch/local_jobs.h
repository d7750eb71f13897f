/* SPDX-License-Identifier: Apache-2.0 */
/** The jobs that are seen on this machine (observe/inspect/inspection.h), as `weft ps` lists them. */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_LOCAL_JOBS_H
#define WEFT_CLI_PLATFORM_LAUNCH_LOCAL_JOBS_H

#include "observe/inspect/inspection.h"

#include <stdio.h>

struct local_jobs {
    struct inspection inspection;
    bool all;        /**< also those of other users */
    char own[64];    /**< the user who asks */
    uint32_t count;  /**< jobs that are shown */
    uint32_t others; /**< jobs that are left out */
};

/** Look for one's own jobs, or with `all` for all that one may see. Errors: those of inspection_open(). */
weft_status local_jobs_open(bool all, struct local_jobs *jobs, struct error *error);
void local_jobs_close(struct local_jobs *jobs);

/** Print them as a table, or as a line of JSON for each. */
void local_jobs_print(const struct local_jobs *jobs, bool json, FILE *output);

#endif
