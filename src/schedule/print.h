/* SPDX-License-Identifier: Apache-2.0 */
/** Plans for people: one line a step. */
#ifndef WEFT_SCHEDULE_PRINT_H
#define WEFT_SCHEDULE_PRINT_H

#include "schedule/plan.h"

#include <stdio.h>

/** Print a header line and every step by lanes: what, with whom, which chunks, what it waits for. */
void plan_print(const struct plan *plan, FILE *out);

#endif
