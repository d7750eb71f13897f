/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Continues a run after ranks are lost, from the memory of the others.
 *
 * The survivors find each other (weft_shrink()) and agree how far the run has come. They are at most one step apart, and
 * where every rank updates its weights alone (executor_updates_alone()), those that have one step less complete it with
 * the norm that the others have. The mesh is chosen again: its tensor axis stays as it is, its pipeline axis if
 * possible. Weights and moments move to where the new mesh has them. If the survivors do not have all of them, the run
 * continues from copies that ranks keep for each other (training/parallel/state_copies.h), or else from the newest
 * checkpoint of this run, or from where it began; the steps since then are repeated. The bits are those of a run that
 * lost no rank (with a tensor axis too, since it stays).
 *
 * The new rank 0 takes over output, reports and checkpoints.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RECOVERY_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RECOVERY_H

#include "base/error.h"

#include <stdbool.h>

struct trainer;

/** Whether a run that has failed with `status` can continue: it has lost ranks, and config.min_ranks allows it. */
bool recovery_is_possible(const struct trainer *trainer, weft_status status);

/**
 * Recover from the failure in `error`. Collective over the ranks that are left; survives further failures. Then
 * trainer->world is theirs, and trainer->state is where the run continues.
 *
 * Errors: those of weft_shrink(); PEER if too few ranks are left; ARGUMENT or MEMORY if they cannot train the model;
 * DATA if its state is lost. *speaks as for agreement_reach().
 */
weft_status recovery_run(struct trainer *trainer, bool *speaks, struct error *error);

#endif
