/* SPDX-License-Identifier: Apache-2.0 */
/** The timeline of a simulated collective: a file of Chrome's trace events, which Perfetto opens. */
#ifndef WEFT_CLI_UNDERSTAND_SIM_TIMELINE_H
#define WEFT_CLI_UNDERSTAND_SIM_TIMELINE_H

#include "base/file/named_output.h"
#include "core/schedule/simulate/simulate.h"

struct sim_timeline {
    const struct schedule_shape *shape;
    struct named_output output;
    bool empty, failed;
};

/** Begin `path`: a process for each node, in it a thread for each lane of a rank. Errors: of named_output_open(). */
weft_status sim_timeline_open(struct sim_timeline *timeline, const char *path, const struct schedule_shape *shape,
                              struct error *error);

/** Add a step: for struct simulated_watch; `context` is the timeline. */
void sim_timeline_step(void *context, const struct simulated_step *step);

/** Finish the file, or (`keep` false) give it up. Errors: SYSTEM, MEMORY. */
weft_status sim_timeline_close(struct sim_timeline *timeline, bool keep, struct error *error);

#endif
