/* SPDX-License-Identifier: Apache-2.0 */
/** What follows from what the ranks of a job show: for inspection.c. */
#ifndef WEFT_OBSERVE_INSPECT_INTERNAL_INSPECTION_JUDGE_H
#define WEFT_OBSERVE_INSPECT_INTERNAL_INSPECTION_JUDGE_H

#include "observe/inspect/inspection.h"

/** Fill in every rank's `skew` from the moments at which ranks entered the operations that they have in common. */
weft_status inspection_judge_skew(struct inspected_job *job, struct error *error);

/** Fill in waited, waiting, straggler, cycle and verdict from the ranks' states and current operations. */
weft_status inspection_judge_waits(struct inspected_job *job, struct error *error);

#endif
