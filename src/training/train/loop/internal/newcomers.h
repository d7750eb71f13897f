/* SPDX-License-Identifier: Apache-2.0 */
/** Newcomers: ranks that have joined the job of a run that is under way, and get its settings from the others. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_NEWCOMERS_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_NEWCOMERS_H

#include "base/error.h"

#include <stdbool.h>

struct recovery;
struct trainer;

/**
 * If some ranks are new (trainer->is_new), they take the run's settings from one that is not, and prepare model and data. If
 * all are, and some were there when the job began, the run has not begun: recovery->begins. A newcomer
 * that cannot do so (its processor lacks instructions that the run's kernels use, or the data is missing) aborts the job,
 * and the others go on without it. Collective over the job. Errors: those of preparing, on that rank; DATA if all ranks
 * have joined since the run began; the library's. *speaks as for agreement_reach().
 */
weft_status newcomers_welcome(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error);

#endif
