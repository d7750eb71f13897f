/* SPDX-License-Identifier: Apache-2.0 */
/** The jobs that are seen on this machine (insight/inspection.h), as `weft ps` lists them. */
#ifndef WEFT_CLI_LOCAL_JOBS_H
#define WEFT_CLI_LOCAL_JOBS_H

#include "insight/inspection.h"

#include <stdio.h>

struct local_jobs {
    struct inspection inspection;
    uint32_t count;
};

/** Look. Errors: those of inspection_open(). */
weft_status local_jobs_open(struct local_jobs *jobs, struct error *error);
void local_jobs_close(struct local_jobs *jobs);

/** Print them as a table, or as a line of JSON for each. */
void local_jobs_print(const struct local_jobs *jobs, bool json, FILE *output);

#endif
