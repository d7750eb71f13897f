/* SPDX-License-Identifier: Apache-2.0 */
/** For the files of the registry: a row of the table of runs. */
#ifndef WEFT_PLATFORM_REGISTRY_INTERNAL_RUN_ROW_H
#define WEFT_PLATFORM_REGISTRY_INTERNAL_RUN_ROW_H

#include "platform/registry/run/runs.h"

/** The columns that registry_run_row() reads, from the first on. */
#define REGISTRY_RUN_COLUMNS                                                                                           \
    "run, epoch, project, owner, class, name, state, cause, asked, nodes, slots, processors, memory, time_limit, "     \
    "time_slice, priority, retries, slot_kind, preemptible, may_span_pods, interactive, program_failures, "            \
    "platform_failures, submitted, waiting_since, first_started, started, ended, changed, served, discarded, "         \
    "idle_since, progress_at, progress_rank, progress_done, progress_total, progress_left, detail"

/** Errors: DATA if the row holds an unknown state or cause. */
weft_status registry_run_row(struct statement *select, struct registry_run *run, struct error *error);

/** `detail` as it is kept: `otherwise` where it is empty, cut, and printable. Returns `kept`. */
char *registry_detail(const char *detail, const char *otherwise, char kept[REGISTRY_DETAIL_BYTES]);

#endif
