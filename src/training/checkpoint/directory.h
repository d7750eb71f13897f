/* SPDX-License-Identifier: Apache-2.0 */
/** Names of checkpoints in a run directory, and the moves that make one appear and vanish at once. See checkpoint.h. */
#ifndef WEFT_TRAINING_CHECKPOINT_DIRECTORY_H
#define WEFT_TRAINING_CHECKPOINT_DIRECTORY_H

#include "base/error.h"
#include "base/file/file.h"

#include <stdint.h>

/** "RUN/step-00000200" to `path`; with "partial", the directory in which it is being written. */
weft_status directory_of_step(const char *run, uint64_t step, char path[FILE_PATH_BYTES], struct error *error);
weft_status directory_of_partial(const char *run, uint64_t step, char path[FILE_PATH_BYTES], struct error *error);

/** Remove all partial directories of `run`. */
weft_status directory_remove_partials(const char *run, struct error *error);

/**
 * Give the partial directory of `step` its name. A checkpoint that has the name already is swapped out in one move where
 * the file system can do that (all of Linux's own), else renamed away just before; then removed.
 */
weft_status directory_publish(const char *run, uint64_t step, struct error *error);

/** Make the link RUN/best lead to the checkpoint of `step`, in one move. */
weft_status directory_mark_best(const char *run, uint64_t step, struct error *error);

/** Of the checkpoints up to `step`, remove all but the newest `keep` and the best. Later ones stay: they are another
 * attempt's. */
weft_status directory_prune(const char *run, uint64_t step, unsigned keep, struct error *error);

#endif
