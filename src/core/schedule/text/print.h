/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules as text: one line per step, readable by people and parsed by core/schedule/text/read.h.
 *
 * A frame, then the schedules of all ranks, is the form that core/schedule/text/read.h reads.
 */
#ifndef WEFT_CORE_SCHEDULE_TEXT_PRINT_H
#define WEFT_CORE_SCHEDULE_TEXT_PRINT_H

#include "core/schedule/format/shape.h"

#include <stdio.h>

/** Print the header common to the schedules of all ranks, which were generated for `shape`. */
void schedule_print_frame(const struct schedule *schedule, const struct schedule_shape *shape, FILE *out);

/** Print every step by lanes: kind, peer, chunks and wait. */
void schedule_print(const struct schedule *schedule, FILE *out);

#endif
