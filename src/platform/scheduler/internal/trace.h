/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Traces of jobs: what was submitted to a cluster when, read from anybody's file.
 *
 * Two formats, told apart by their first line, each plain or compressed by gzip:
 *  - CSV with a header that names submit_s, duration_s and num_gpus, and vc (the project) if it is known; other columns
 *    are passed over;
 *  - the Standard Workload Format (SWF, version 2, D. Feitelson: 18 numbers a line, -1 for unknown, ';' begins a
 *    comment): processors are slots, the user is the project. Jobs of which the submission, the run time or the
 *    processors are not known (they never ran, most of them) are left out, and counted.
 *
 * Every line has as many fields as the first one. A byte order mark at the beginning is passed over.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_TRACE_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_TRACE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct trace_job {
    double submit, duration; /**< seconds */
    uint32_t slots;
    uint32_t project;
    uint64_t name; /**< the job's number: of its line in a CSV file, from 1; its own in SWF */
    size_t line;   /**< where it is in the file, from 1 */
};

/** Jobs in the order of submission. */
struct job_trace {
    struct trace_job *jobs;
    size_t count;
    size_t left_out; /**< jobs of the file that are not among them */
    uint32_t projects;
};

/** Read the trace at `path`. Errors: SYSTEM; DATA with the line that is wrong; MEMORY. */
weft_status trace_read(const char *path, struct job_trace *trace, struct error *error);

/** The same of `size` bytes of text, named `path` in messages. */
weft_status trace_parse(const char *path, const char *text, size_t size, struct job_trace *trace, struct error *error);

void trace_free(struct job_trace *trace);

#endif
