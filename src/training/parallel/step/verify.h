/* SPDX-License-Identifier: Apache-2.0 */
/** The verifier of steps: proves that schedules compute what a step is, for schedules of any origin. */
#ifndef WEFT_TRAINING_PARALLEL_STEP_VERIFY_H
#define WEFT_TRAINING_PARALLEL_STEP_VERIFY_H

#include "training/parallel/step/step.h"

/**
 * Prove schedules[0 .. shape->pipeline):
 *
 * - every micro-batch passes every unit forward, backward for inputs and backward for weights once each, in an order
 *   in which what each pass reads is there; gradients of weights come in the order of micro-batches, so their sum has
 *   the canonical order;
 * - every message is sent after what it carries is computed, has its receive, and is received before it is used;
 * - no memory is overwritten or released before its last reader is done, and no memory number exceeds what the schedule
 *   says it needs, nor the slots what step_slots_bound() promises;
 * - under ZeRO-3 weights are there while they are used, and at most `prefetch` + 2 units of them;
 * - every gradient is reduced once (of each micro-batch under ZeRO-2 and 3), before the norm; a tied tensor is added up
 *   once on each of its ranks; every unit is updated once, then shared where others need it; the step ends with nothing
 *   under way;
 * - no deadlock, with messages that have no buffers.
 *
 * Ranks of the data axis run the same schedule, so their collectives match, and a copy of the pipeline that never waits
 * for ever implies that all copies together do not.
 *
 * Errors: WEFT_ERROR_SCHEDULE, with a message that names the rank, the operation and what is wrong; MEMORY.
 */
weft_status step_verify(const struct step_shape *shape, const struct step_schedule *schedules, struct error *error);

#endif
