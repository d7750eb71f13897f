/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The verifier: runs the schedules of all ranks symbolically and proves that they compute what they claim.
 *
 * Proved: every output chunk of every rank holds each contribution that the collective's definition asks for exactly
 * once, combined in the canonical tree where the schedule says canonical, and the same tree on every rank; sends and
 * receives match in order and size; no deadlock, a send being complete only when its receive has begun (no slots at
 * all); nothing is read before it is written; no two conflicting accesses are unordered (vector clocks over declared
 * waits, signals and messages); scratch, staging and chunk bounds hold, loops included (several iterations, each slot
 * reused); in place works; no step that writes is superfluous; under the registered, the ordinary and an alternating
 * binding of shared memory.
 */
#ifndef WEFT_CORE_SCHEDULE_VERIFY_VERIFY_H
#define WEFT_CORE_SCHEDULE_VERIFY_VERIFY_H

#include "core/schedule/generators/generate.h"

/**
 * Verify schedules[0..ranks) of one shape together. WEFT_ERROR_SCHEDULE with a message that names rank, lane, step and
 * the violation.
 */
weft_status schedule_verify(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                            struct error *error);

/** Whether any of the schedules touches shared memory. */
bool schedules_use_shm(struct schedule *const *schedules, uint32_t ranks);

#endif
