/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The symbolic machine that the verifier runs plans on. Private to the verifier and its tests.
 *
 * Every lane of every rank is a *thread* with a vector clock; every chunk of every buffer, in every iteration or slot,
 * is a *cell* with a symbolic value, its last write and the reads since. A step that touches cells does so at any time
 * between its begin and its end; two accesses of a cell, one of them a write, must be ordered: the later one's clock at
 * its begin must hold the earlier one's end. Since matching, waits and signals depend on nothing but counts, one
 * execution stands for all.
 */
#ifndef WEFT_SCHEDULE_VERIFY_MACHINE_H
#define WEFT_SCHEDULE_VERIFY_MACHINE_H

#include "schedule/symbols.h"
#include "schedule/verify.h"

/** What is local to the ranks: which buffers are registered, who works in place. */
struct verify_binding {
    enum verify_choice { CHOICE_NONE, CHOICE_ALL, CHOICE_ALTERNATING } registered, in_place;
};

/** A set of facts about what an execution did: the hash of each, once. Kept when asked for. */
struct verify_flow {
    uint64_t *facts; /**< open addressing, 0: empty */
    uint32_t count, mask;
};

void verify_flow_free(struct verify_flow *flow);
/**
 * Whether two executions did the same: the same messages of the same values, the same values to the same outputs, and
 * (unless `only_data`) the same steps about data before each step about data.
 */
bool verify_flow_equal(const struct verify_flow *a, const struct verify_flow *b, bool only_data);

/** Run under each of `count` bindings and prove what verify.h lists. `flow` may be NULL; else it is filled (zero it
 * before; one binding at a time). */
weft_status verify_run(struct plan *const *plans, uint32_t ranks, const struct plan_shape *shape,
                       const struct verify_binding *bindings, uint32_t count, struct verify_flow *flow,
                       struct error *error);

/**
 * Run once in a random order that the plans allow, and look at the results only: what a step is going to write is
 * spoilt from its begin on, callers spoil their buffers before a rank begins and once it is done. It knows nothing of
 * clocks: a second opinion for tests of the verifier.
 */
weft_status verify_chaos(struct plan *const *plans, uint32_t ranks, const struct plan_shape *shape,
                         const struct verify_binding *binding, uint64_t seed, struct error *error);

/** The bindings that matter for these plans; *count of them. Static. */
const struct verify_binding *verify_bindings(struct plan *const *plans, uint32_t ranks, const struct plan_shape *shape,
                                             uint32_t *count);

#endif
