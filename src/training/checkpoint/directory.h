/* SPDX-License-Identifier: Apache-2.0 */
/** Names of checkpoints in a run directory, and the renames that publish and remove one atomically. See
 * checkpoint.h. */
#ifndef WEFT_TRAINING_CHECKPOINT_DIRECTORY_H
#define WEFT_TRAINING_CHECKPOINT_DIRECTORY_H

#include "base/error.h"
#include "base/file/file.h"

#include <stdbool.h>
#include <stdint.h>

/** "RUN/step-00000200" to `path`; with "partial", the directory in which it is being written. */
weft_status directory_of_step(const char *run, uint64_t step, char path[FILE_PATH_BYTES], struct error *error);
weft_status directory_of_partial(const char *run, uint64_t step, char path[FILE_PATH_BYTES], struct error *error);

/** The step of a checkpoint's directory by its name: true for "RUN/step-00000200". */
bool directory_step_named(const char *path, uint64_t *step);

/** Remove all partial directories of `run`. */
weft_status directory_remove_partials(const char *run, struct error *error);

/**
 * Rename the partial directory of `step` to its final name. An existing checkpoint of that name is exchanged atomically
 * where the file system supports it (all native Linux ones do), otherwise renamed just before, and then removed.
 */
weft_status directory_publish(const char *run, uint64_t step, struct error *error);

/** Point the link RUN/best to the checkpoint of `step`, atomically. */
weft_status directory_mark_best(const char *run, uint64_t step, struct error *error);

/** Whether that link leads to the checkpoint of `step`. */
bool directory_is_best(const char *run, uint64_t step);

/** Remove the checkpoints up to `step`, except the newest `keep`, the best, and that of step `held` (UINT64_MAX: none),
 * which somebody reads. Later ones stay: they belong to another attempt. */
weft_status directory_prune(const char *run, uint64_t step, unsigned keep, uint64_t held, struct error *error);

#endif
