/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The preemption contract, from the side of a program that trains (docs/tutorials/preemption.md):
 *
 *     SIGTERM, SIGUSR1      write a checkpoint at the next step's end, or in an evaluation at the next micro-batch's,
 * then exit with EX_TEMPFAIL (75): "run me again" SIGINT                the same for a person at a terminal; exit with
 * 130 a second signal       end at once WEFT_GRACE            seconds that this may take; then the process ends by
 * itself, with the same code WEFT_CHECKPOINT_DIR   where checkpoints go, and where a run goes on from if one is there
 *
 * A scheduler and a launcher between it and the process may both send SIGTERM: what comes within a second of the first
 * SIGTERM or SIGUSR1 is part of it.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_PREEMPTION_H
#define WEFT_CLI_PLATFORM_CLIENT_PREEMPTION_H

#include "training/train/state/config.h"

#include <stdatomic.h>

#define PREEMPTION_EXIT_CODE 75 /**< EX_TEMPFAIL of sysexits.h */

/** The grace period: `option` if it is not 0, else WEFT_GRACE, else 30 s. Errors: ARGUMENT for an odd WEFT_GRACE. */
weft_status preemption_grace(double option, double *seconds, struct error *error);

/**
 * Watch for the signals above from here on. Returns where the number of the first one that came will be; 0 before. When
 * `grace` seconds have gone since a SIGTERM or SIGUSR1, the process says so and ends.
 */
const atomic_int *preemption_watch(double grace);

/** Another rank will say so. */
void preemption_be_silent(void);

/** The exit code of a training that ended early because of signal `number`. */
int preemption_exit_code(int number);

/**
 * Complete `config`'s checkpoint_dir and resume: without a directory WEFT_CHECKPOINT_DIR's, with `resume` "auto". `resume`
 * "auto" becomes the directory if it holds a checkpoint, else NULL, and `*fresh` true. Errors: ARGUMENT for "auto" without
 * a directory; SYSTEM if it cannot be read.
 */
weft_status preemption_find_checkpoint(struct train_config *config, bool *fresh, struct error *error);

#endif
