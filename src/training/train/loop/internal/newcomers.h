/* SPDX-License-Identifier: Apache-2.0 */
/** Newcomers: ranks that have joined the job of a run that is under way, and get its settings from the others. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_NEWCOMERS_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_NEWCOMERS_H

#include "base/error.h"

#include <stdbool.h>

struct trainer;

/**
 * If some ranks are new (trainer->is_new), they take the run's settings from rank 0 and prepare model and data. A newcomer
 * that cannot do so (its processor lacks instructions that the run's kernels use, or the data is missing) aborts the job,
 * and the others go on without it. Collective over the job. Errors: those of preparing, on that rank; DATA if all ranks are
 * new; the library's. *speaks as for agreement_reach().
 */
weft_status newcomers_welcome(struct trainer *trainer, bool *speaks, struct error *error);

#endif
