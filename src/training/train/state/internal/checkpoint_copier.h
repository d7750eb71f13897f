/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copies of complete checkpoints in a second directory (--checkpoint-copy), made in the background.
 *
 *     prepare   rank 0's thread claims the directory and makes a partial directory in it
 *     parts     each rank's thread copies and verifies the files that it wrote, if it sees the second directory
 *     rest      rank 0's thread copies the files that nobody has copied, and the manifest, and renames the copy
 *
 * All ranks learn between two steps that a stage has ended, and go on to the next one together. A copy that fails is
 * reported and forgotten: training goes on, and the next checkpoint is copied. While one is being copied, newer
 * checkpoints may become complete: the newest of them is next. So a slow disk costs copies, and not training's time.
 *
 * Threads have the lowest priority but one for idle time (nice 10). Not thread-safe; one copier belongs to one writer.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_CHECKPOINT_COPIER_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_CHECKPOINT_COPIER_H

#include "training/checkpoint/checkpoint.h"
#include "training/train/state/checkpoint_writer.h"
#include "training/train/state/internal/checkpoint_parts.h"

struct checkpoint_copier;

/** Local. `setup` is borrowed. Errors: MEMORY. */
weft_status checkpoint_copier_open(const struct checkpoint_writer_setup *setup, struct checkpoint_copier **copier,
                                   struct error *error);

/** All ranks: the checkpoint of `step` is complete, and this rank has written `files` ("": none). NULL: none, or not known. */
void checkpoint_copier_note(struct checkpoint_copier *copier, uint64_t step,
                            const struct checkpoint_record files[PART_KINDS]);

/**
 * All ranks, at the end of a step: go on with a copy whose stage has ended, or begin one if `may_begin`. Never waits
 * for a disk. Errors: the library's.
 */
weft_status checkpoint_copier_poll(struct checkpoint_copier *copier, bool may_begin, struct error *error);

/** All ranks: wait until no copy is under way, and all that were noted are made. Errors: the library's. */
weft_status checkpoint_copier_finish(struct checkpoint_copier *copier, struct error *error);

/** The step of the checkpoint that is being copied; UINT64_MAX: none. It must not be removed. */
uint64_t checkpoint_copier_step(const struct checkpoint_copier *copier);

/** The step of the newest checkpoint that was noted and has no copy yet; UINT64_MAX: none. */
uint64_t checkpoint_copier_uncopied(const struct checkpoint_copier *copier);

/** The step of the newest copy; UINT64_MAX: none. */
uint64_t checkpoint_copier_completed(const struct checkpoint_copier *copier);

/** This rank: cancel the current copy, wait for the thread, free. NULL is allowed, as for all of the above. */
void checkpoint_copier_close(struct checkpoint_copier *copier);

#endif
