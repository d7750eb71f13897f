/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The preemption contract of a training program (docs/tutorials/preemption.md):
 *
 *     SIGTERM, SIGUSR1      write a checkpoint at the end of the step, or of the micro-batch in an evaluation, then exit
 *                           with EX_TEMPFAIL (75): "run me again"
 *     SIGINT                the same, for a person at a terminal; exit with 130
 *     a second signal       end at once
 *     WEFT_GRACE            seconds that this may take; then the process ends by itself with the same code
 *     WEFT_CHECKPOINT_DIR   directory for checkpoints; a run resumes from the checkpoint there, if there is one
 *
 * A scheduler and the launcher below it may both send SIGTERM: signals within a second of the first SIGTERM or SIGUSR1
 * count as one.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_PREEMPTION_H
#define WEFT_CLI_PLATFORM_CLIENT_PREEMPTION_H

#include "training/train/state/config.h"

#include <stdatomic.h>

#define PREEMPTION_EXIT_CODE 75 /**< EX_TEMPFAIL of sysexits.h */

/** The grace period: `option` if it is not 0, else WEFT_GRACE, else 30 s. Errors: ARGUMENT for an invalid WEFT_GRACE. */
weft_status preemption_grace(double option, double *seconds, struct error *error);

/**
 * Handle the signals above from now on. Returns a variable that gets the number of the first signal; it is 0 before.
 * `grace` seconds after a SIGTERM or SIGUSR1 the process prints a message and ends.
 */
const atomic_int *preemption_watch(double grace);

/** End without that message: another rank prints it. */
void preemption_be_silent(void);

/** The exit code of a training that ended early because of signal `number`. */
int preemption_exit_code(int number);

/**
 * Complete checkpoint_dir and resume of `config`. Without a directory, take WEFT_CHECKPOINT_DIR, with `resume` "auto".
 * `resume` "auto" becomes the directory if it or checkpoint_copy holds a checkpoint; otherwise it becomes NULL and `*fresh` true. Errors:
 * ARGUMENT for "auto" without a directory; SYSTEM if the directory cannot be read.
 */
weft_status preemption_find_checkpoint(struct train_config *config, bool *fresh, struct error *error);

#endif
