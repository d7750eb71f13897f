/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copies of checkpoints in a second directory, on another disk or another host: a run resumes from there if the first
 * one is lost or damaged.
 *
 *     rank 0       checkpoint_claim(copy), checkpoint_begin(copy, step)
 *     any rank     checkpoint_copy_file(run, copy, step, ...) for files that it wrote
 *     rank 0       checkpoint_copy_complete(run, copy, step, ...): the rest of the files, the manifest; rename
 *
 * A copy is complete or absent, as checkpoints are, and has the same bytes. The checkpoint must not be removed
 * meanwhile (directory_prune()). Each copied file is synced, dropped from the page cache, read again, and compared with
 * the manifest's SHA-256: the first directory's memory or disk may be at fault as well.
 */
#ifndef WEFT_TRAINING_CHECKPOINT_COPY_H
#define WEFT_TRAINING_CHECKPOINT_COPY_H

#include "training/checkpoint/checkpoint.h"

#include <stdatomic.h>

/**
 * Copy and verify the file `record` of the checkpoint of `step`. Errors: SYSTEM (a full disk: with path and bytes);
 * DATA if the copy does not have the bytes of the record; ABORTED once `*stop` is true. No half-written file is left.
 */
weft_status checkpoint_copy_file(const char *run, const char *copy, uint64_t step,
                                 const struct checkpoint_record *record, const atomic_bool *stop, struct error *error);

/**
 * Copy the files that are still missing, and the manifest; give the copy its final name, mark it as the best if the
 * checkpoint is, and remove the oldest copies beyond `keep` (0: keep all), but not the best. Errors: as above.
 */
weft_status checkpoint_copy_complete(const char *run, const char *copy, uint64_t step, unsigned keep,
                                     const atomic_bool *stop, struct error *error);

#define CHECKPOINT_WARNING_BYTES (ERROR_TEXT_BYTES + FILE_PATH_BYTES + 64)

/**
 * Choose where to resume from: `directory` (as for checkpoint_open()), or its copies in `copy` (NULL: there are none).
 * The checkpoint with the highest step that can be verified wins, and that of `directory` if both are of the same step.
 * If `directory` is, or was, that of a single checkpoint ("RUN/step-00000200"), the only other choice is the copy of
 * that step.
 *
 * One that cannot be read, though it may be whole (a permission, an I/O error), is replaced by one of the same step only:
 * an error that passes must not lead to an older checkpoint.
 *
 * `chosen` is `directory` if its newest checkpoint wins, otherwise the directory of a checkpoint. `warning` says why an
 * older one or a copy was chosen, or is "". `verified` is the identity of the chosen one, every byte of which was read;
 * zero: it is a link such as "RUN/best", and was not read. Errors: DATA if none can be used; the message says why for
 * the newest ones. SYSTEM if the newest that may be whole cannot be read. MEMORY.
 */
weft_status checkpoint_choose(const char *directory, const char *copy, char chosen[FILE_PATH_BYTES],
                              char warning[CHECKPOINT_WARNING_BYTES], struct checkpoint_identity *verified,
                              struct error *error);

#endif
