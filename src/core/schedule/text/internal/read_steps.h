/* SPDX-License-Identifier: Apache-2.0 */
/** One line of a schedule text, read as a step. */
#ifndef WEFT_CORE_SCHEDULE_TEXT_INTERNAL_READ_STEPS_H
#define WEFT_CORE_SCHEDULE_TEXT_INTERNAL_READ_STEPS_H

#include "core/schedule/generators/builder.h"
#include "core/schedule/text/internal/scanner.h"

/** Read the rest of the scanner's line as a step and add it to `lane`. */
bool schedule_text_step(struct scanner *scanner, struct builder *builder, uint32_t lane);

#endif
