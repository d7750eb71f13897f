/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Continues a run with other ranks: after some are lost, from the memory of the others; and when some have joined.
 *
 * The ranks find each other (weft_shrink(), weft_grow()). Newcomers get the run's settings (newcomers.h). All agree how
 * far the run has come (recovery_progress.c): after a failure the survivors are at most one step apart, and where every
 * rank updates its weights alone (executor_updates_alone()), those that have one step less complete it with the norm that
 * the others have. The mesh is chosen again: its tensor axis stays as it is, its pipeline axis if possible. Ranks that no
 * mesh has a place for are spares (spares.h). Weights and moments move to where the new mesh has them
 * (recovery_state.c). If the ranks do not have all of them, the run continues from copies that they keep for each other
 * (training/parallel/state_copies.h), or else from the newest checkpoint of this run, or from where it began; the steps
 * since then are repeated. The bits are those of a run whose ranks stayed the same.
 *
 * The new rank 0 takes over output, reports and checkpoints.
 *
 * Ranks that are lost before the run has begun: the others come here too, as if they were new. If some rank has begun, they
 * join it; otherwise all begin again.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RECOVERY_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RECOVERY_H

#include "base/error.h"

#include <stdbool.h>

struct trainer;

/** Whether a run that has failed with `status` can continue: it has lost ranks, and config.min_ranks allows it. */
bool recovery_is_possible(const struct trainer *trainer, weft_status status);

/**
 * Recover from the failure in `error`; without a failure: admit the ranks that wait, between steps. Collective over the
 * ranks that are left; survives further failures. Then trainer->world is theirs, and trainer->state is where the run
 * continues.
 *
 * Errors: those of weft_shrink(); PEER if too few ranks are left; ARGUMENT or MEMORY if they cannot train the model;
 * DATA if its state is lost. *speaks as for agreement_reach().
 */
weft_status recovery_run(struct trainer *trainer, bool *speaks, struct error *error);

/**
 * The same for a rank without the run, trainer->is_new: a newcomer, whose context was admitted; or one that was there from
 * the first (trainer->first_ranks), and had the failure in `error` while the run began. *begun: no rank had the run, so they
 * have begun it (begin.h).
 */
weft_status recovery_join(struct trainer *trainer, bool *begun, bool *speaks, struct error *error);

#endif
