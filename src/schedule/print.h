/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Plans as text: one line a step, for people and for schedule/written.h, which reads it back.
 *
 * A frame and the plans of all ranks after it are a whole schedule.
 */
#ifndef WEFT_SCHEDULE_PRINT_H
#define WEFT_SCHEDULE_PRINT_H

#include "schedule/shape.h"

#include <stdio.h>

/** Print what the plans of all ranks have in common; `shape` is what the plan was made for. */
void plan_print_frame(const struct plan *plan, const struct plan_shape *shape, FILE *out);

/** Print every step by lanes: what, with whom, which chunks, what it waits for. */
void plan_print(const struct plan *plan, FILE *out);

#endif
