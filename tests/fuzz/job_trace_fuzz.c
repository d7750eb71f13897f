/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a trace of jobs: refused with a message, or its jobs are in order and could be run. */
#include "platform/scheduler/internal/trace.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job_trace trace = {0};
    struct error error = {0};
    if (trace_parse("jobs", (const char *)data, size, &trace, &error) != WEFT_OK) {
        if (!*error.text || trace.jobs)
            abort();
        return 0;
    }
    if (!trace.count)
        abort();
    for (size_t i = 0; i < trace.count; i++) {
        const struct trace_job *job = &trace.jobs[i];
        if (!isfinite(job->submit) || !isfinite(job->duration) || job->submit < 0 || job->duration < 0 || !job->slots ||
            job->project >= trace.projects || (i && job->submit < job[-1].submit))
            abort();
    }
    trace_free(&trace);
    return 0;
}
