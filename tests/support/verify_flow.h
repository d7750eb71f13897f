/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What an execution on the verifier's machine does: its messages, its results and their order, to compare two sets of
 * schedules. It needs `verify_chaos` (meson.build), which reports stores and completed steps.
 */
#ifndef WEFT_TESTS_VERIFY_FLOW_H
#define WEFT_TESTS_VERIFY_FLOW_H

#include "core/schedule/verify/internal/state.h"

/** What an execution did. */
struct verify_flow {
    uint64_t *facts; /**< the hash of each message and each value written to an output; open addressing, 0: empty */
    uint32_t count, mask;
    uint64_t *order; /**< rows: for each data step, what it is, then how many data steps of each lane of each rank are
                        complete before it */
    uint32_t rows, width;
};

/** Run schedules that were proved, under one binding; *flow is zeroed before. Errors: MEMORY. */
weft_status verify_flow_record(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                               const struct verify_binding *binding, struct verify_flow *flow, struct error *error);
void verify_flow_free(struct verify_flow *flow);

/** How two executions compare, from the strictest relation on. */
enum verify_relation {
    FLOW_SAME, /**< the same messages of the same values, the same values to the same outputs, and the same data steps
                  after the same data steps */
    FLOW_REFINED, /**< the same, but some steps of `a` come after more steps: all that `a` can do `b` can do, too */
    FLOW_DATA,    /**< the same messages and outputs, in another order */
    FLOW_OTHER
};
enum verify_relation verify_flow_compare(const struct verify_flow *a, const struct verify_flow *b);

/** For verify_chaos.c: a machine stores a value; a step is about to be complete. Ignored for other machines. */
void verify_flow_note_store(const struct verify_machine *machine, uint32_t index, struct value value);
void verify_flow_note_complete(struct verify_machine *machine, struct thread *thread);

#endif
