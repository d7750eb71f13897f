/* SPDX-License-Identifier: Apache-2.0 */
/** One line of a written schedule, read as a step. Private to written*.c. */
#ifndef WEFT_SCHEDULE_WRITTEN_STEPS_H
#define WEFT_SCHEDULE_WRITTEN_STEPS_H

#include "schedule/builder.h"
#include "schedule/scanner.h"

/** Read the rest of the scanner's line as a step and add it to `lane`. */
bool written_step(struct scanner *scanner, struct builder *builder, uint32_t lane);

#endif
