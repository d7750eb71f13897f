/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A run that all ranks begin together: they settle what the command leaves open, prepare model and data, choose the mesh,
 * and get the state to begin with. If ranks are lost meanwhile, the others begin again (recovery.h), with the learning rate
 * of the ranks that the job began with; --mesh auto plans for those that are left.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_BEGIN_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_BEGIN_H

#include "base/error.h"

#include <stdbool.h>

struct recovery;
struct trainer;

/**
 * Begin with the ranks of trainer->world. Those without a place in the mesh become spares. Collective over the job.
 * Errors, on all ranks: those of preparing; ARGUMENT or MEMORY with recovery->lacks_mesh if there is no mesh for the ranks
 * that are left; the library's. *speaks as for agreement_reach().
 */
weft_status trainer_begin(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error);

#endif
