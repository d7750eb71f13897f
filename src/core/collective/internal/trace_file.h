/* SPDX-License-Identifier: Apache-2.0 */
/** Writing a trace: for trace.c. observe/inspect/timeline.h describes the format. */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_TRACE_FILE_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_TRACE_FILE_H

#include "core/collective/internal/trace.h"

/**
 * Write `trace`, whose recording has ended: all ranks' into one file by rank 0, or, when the job has `failed` or rank 0
 * does not trace, each rank its own. Errors: SYSTEM, and those of the messages.
 */
weft_status trace_file_write(weft_context *context, const struct trace *trace, bool failed, struct error *error);

#endif
