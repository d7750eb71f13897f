/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The symbolic machine that the verifier runs schedules on. Private to the verifier and its tests.
 *
 * Every lane of every rank is a *thread* with a vector clock; every chunk of every buffer, in every iteration or slot,
 * is a *cell* with a symbolic value, its last write and the reads since. A step that touches cells does so at any time
 * between its begin and its end; two accesses of a cell, one of them a write, must be ordered: the later one's clock at
 * its begin must hold the earlier one's end. Matching, waits and signals depend on counts alone, so one execution
 * stands for all.
 */
#ifndef WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_MACHINE_H
#define WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_MACHINE_H

#include "core/schedule/verify/internal/symbols.h"
#include "core/schedule/verify/verify.h"

/** Properties local to ranks: which buffers are registered, which ranks work in place. */
struct verify_binding {
    enum verify_choice { CHOICE_NONE, CHOICE_ALL, CHOICE_ALTERNATING } registered, in_place;
};

/**
 * Run under each of `count` bindings and prove the properties that verify.h lists; if `complete`, also that no step
 * that writes is superfluous under all of them.
 */
weft_status verify_run(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                       const struct verify_binding *bindings, uint32_t count, bool complete, struct error *error);

/** The bindings that matter for these schedules; *count of them. Static. */
const struct verify_binding *verify_bindings(struct schedule *const *schedules, uint32_t ranks,
                                             const struct schedule_shape *shape, uint32_t *count);

#endif
