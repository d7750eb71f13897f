/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A second opinion on the verifier: a random execution instead of a proof. It needs `verify_chaos` (meson.build), which
 * puts verify_chaos.c between the steps of the verifier's machine and its memory.
 */
#ifndef WEFT_TESTS_VERIFY_CHAOS_H
#define WEFT_TESTS_VERIFY_CHAOS_H

#include "core/schedule/verify/internal/machine.h"

/**
 * Run once in a random order that the schedules allow, and look at values only: what a step is going to write is
 * overwritten with poison when it begins, callers poison their buffers before a rank begins and once it is done. No
 * access is out of order here: every clock knows everything from the beginning.
 */
weft_status verify_chaos(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                         const struct verify_binding *binding, uint64_t seed, struct error *error);

#endif
