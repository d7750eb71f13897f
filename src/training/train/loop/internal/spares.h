/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Spares: ranks of the job that the mesh has no place for, after others were lost or have joined. They hold no state, and
 * wait until rank 0 tells them what comes, or ranks are lost.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_SPARES_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_SPARES_H

#include "base/error.h"

struct trainer;

enum spare_command {
    SPARE_REGROUPS, /**< ranks are to join: call recovery_run() */
    SPARE_ENDS,     /**< the run has ended */
    SPARE_FAILS,    /**< the run has failed, with a message of another rank */
};

/** Rank 0 sends the command to all spares; does nothing on other ranks. Errors: the library's. */
weft_status spares_tell(struct trainer *trainer, enum spare_command command, struct error *error);

/**
 * On a spare: wait for a command, and note in trainer->course that ranks join, or which signal has ended the run. Errors:
 * the library's; STATE if the run has failed elsewhere.
 */
weft_status spares_wait(struct trainer *trainer, struct error *error);

#endif
