/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules as text: one line a step, for people and for core/schedule/text/read.h, which reads it back.
 *
 * A frame, then the schedules of all ranks, is the form that core/schedule/text/read.h reads.
 */
#ifndef WEFT_CORE_SCHEDULE_TEXT_PRINT_H
#define WEFT_CORE_SCHEDULE_TEXT_PRINT_H

#include "core/schedule/format/shape.h"

#include <stdio.h>

/** Print what the schedules of all ranks have in common; `shape` is what the schedule was made for. */
void schedule_print_frame(const struct schedule *schedule, const struct schedule_shape *shape, FILE *out);

/** Print every step by lanes: what, with whom, which chunks, what it waits for. */
void schedule_print(const struct schedule *schedule, FILE *out);

#endif
