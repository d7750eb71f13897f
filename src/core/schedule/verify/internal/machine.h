/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The symbolic machine that the verifier runs schedules on. Private to the verifier and its tests.
 *
 * Every lane of every rank is a *thread* with a vector clock; every chunk of every buffer, in every iteration or slot,
 * is a *cell* with a symbolic value, its last write and the reads since. A step that touches cells does so at any time
 * between its begin and its end; two accesses of a cell, one of them a write, must be ordered: the later one's clock at
 * its begin must hold the earlier one's end. Since matching, waits and signals depend on nothing but counts, one
 * execution stands for all.
 */
#ifndef WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_MACHINE_H
#define WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_MACHINE_H

#include "core/schedule/verify/internal/symbols.h"
#include "core/schedule/verify/verify.h"

/** What is local to the ranks: which buffers are registered, who works in place. */
struct verify_binding {
    enum verify_choice { CHOICE_NONE, CHOICE_ALL, CHOICE_ALTERNATING } registered, in_place;
};

/** What an execution did. Kept when asked for. */
struct verify_flow {
    uint64_t *facts; /**< the hash of each message and each value written to an output; open addressing, 0: empty */
    uint32_t count, mask;
    uint64_t *order; /**< rows: for each step about data, what it is, then how many steps about data of each lane of
                        each rank are complete before it */
    uint32_t rows, width;
};

void verify_flow_free(struct verify_flow *flow);

/** How two executions compare, from the strictest relation on. */
enum verify_relation {
    FLOW_SAME, /**< the same messages of the same values, the same values to the same outputs, and the same steps about
                  data after the same steps about data */
    FLOW_REFINED, /**< the same, but some steps of `a` come after more steps: all that `a` can do `b` can do, too */
    FLOW_DATA,    /**< the same messages and outputs, in another order */
    FLOW_OTHER
};
enum verify_relation verify_flow_compare(const struct verify_flow *a, const struct verify_flow *b);

/** Run under one binding and prove what verify.h lists. `flow` may be NULL; else it is filled (zero it before). */
weft_status verify_run(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                       const struct verify_binding *binding, struct verify_flow *flow, struct error *error);

/** The same under every binding that matters; and no step that writes is superfluous under all of them. */
weft_status verify_prove(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                         struct error *error);

/** The bindings that matter for these schedules; *count of them. Static. */
const struct verify_binding *verify_bindings(struct schedule *const *schedules, uint32_t ranks,
                                             const struct schedule_shape *shape, uint32_t *count);

#endif
