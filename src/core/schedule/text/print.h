/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Plans as text: one line a step, for people and for core/schedule/text/read.h, which reads it back.
 *
 * A frame and the plans of all ranks after it are a whole schedule.
 */
#ifndef WEFT_CORE_SCHEDULE_TEXT_PRINT_H
#define WEFT_CORE_SCHEDULE_TEXT_PRINT_H

#include "core/schedule/format/shape.h"

#include <stdio.h>

/** Print what the plans of all ranks have in common; `shape` is what the plan was made for. */
void plan_print_frame(const struct plan *plan, const struct plan_shape *shape, FILE *out);

/** Print every step by lanes: what, with whom, which chunks, what it waits for. */
void plan_print(const struct plan *plan, FILE *out);

#endif
