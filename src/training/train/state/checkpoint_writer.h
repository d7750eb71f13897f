/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checkpoints written in the background, by a thread of each rank that writes a part.
 *
 *     begin     all ranks, at the end of a step: assign tensors to ranks, start the threads
 *     (threads) hash and write their parts directly from weights and moments, which the next forward and backward pass
 *               do not change
 *     release   each rank, before the next update: copy the parts not written yet in memory (array_snapshot.h)
 *     poll      all ranks, at the end of every step: once all parts are written, rank 0's thread writes the manifest and
 *               renames the checkpoint; success or failure is then known to all ranks
 *
 * So training pauses to create a directory, to copy data that a busy core or a slow disk left unread, and if a
 * checkpoint is due while another one is being written, as there is at most one at a time. The thread runs at a lower
 * priority (nice 5), so that it takes an idle core, or a quarter of a busy one. The last checkpoint of a run has normal
 * priority.
 *
 * Memory, from opening to closing: a copy of this rank's part of a checkpoint (12 bytes a parameter with AdamW, divided
 * by the ranks that write), touched in the background at the start. While no checkpoint is being written the system may
 * reclaim it. A rank that writes elements of other ranks (checkpoint_parts.h) has memory for them from begin to the end
 * of writing instead.
 *
 * Complete checkpoints are copied to --checkpoint-copy by other threads (checkpoint_copier.h).
 *
 * A failure in the background is returned by the next collective call, on all ranks with the same message; older
 * checkpoints are not affected. With `checkpoint_go_on` it is reported, and training continues without that checkpoint.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_CHECKPOINT_WRITER_H
#define WEFT_TRAINING_TRAIN_STATE_CHECKPOINT_WRITER_H

#include "training/train/report/report.h"
#include "training/train/state/state.h"

struct checkpoint_writer;

struct checkpoint_writer_setup {
    weft_context *context;
    weft_comm *comm;
    const struct train_config *config; /**< checkpoint_dir, _keep, _part, _failure */
    const struct training_state *state;
    struct report *report; /**< rank 0 reports checkpoints there */
    uint64_t uncopied;     /**< on rank 0: a checkpoint that a former writer did not copy; UINT64_MAX: none */
};

/** All ranks: detect the ranks that see the directory, which rank 0 has claimed. Everything that `setup` points to is
 * borrowed. */
weft_status checkpoint_writer_open(const struct checkpoint_writer_setup *setup, struct checkpoint_writer **writer,
                                   bool *speaks, struct error *error);

/**
 * All ranks: begin a checkpoint of the state as it is, after waiting for the previous one. `last` means that the
 * caller will only wait for it. Errors, including those of the previous one, are the same on all ranks.
 */
weft_status checkpoint_writer_begin(struct checkpoint_writer *writer, bool last, bool *speaks, struct error *error);

/** This rank: weights and moments may be changed once this returns. Before every update. */
void checkpoint_writer_release(struct checkpoint_writer *writer);

/** All ranks: see above. Never waits for a disk. */
weft_status checkpoint_writer_poll(struct checkpoint_writer *writer, bool *speaks, struct error *error);

/** All ranks: wait until no checkpoint is being written. A failed one is an error; with `checkpoint_go_on` only if it is the
 * `last`. */
weft_status checkpoint_writer_finish(struct checkpoint_writer *writer, bool last, bool *speaks, struct error *error);

/**
 * All ranks: update the evaluations in the manifest of the newest checkpoint and of its copy. The checkpoint is complete
 * and of the current step. Its tensors are not written again.
 */
weft_status checkpoint_writer_amend(struct checkpoint_writer *writer, bool *speaks, struct error *error);

/** This rank: the step of the newest checkpoint that was completed since the writer was opened; UINT64_MAX: none. */
uint64_t checkpoint_writer_completed(const struct checkpoint_writer *writer);

/** All ranks: wait until complete checkpoints are copied, or copying them has failed, which is only reported. */
weft_status checkpoint_writer_finish_copies(struct checkpoint_writer *writer, bool *speaks, struct error *error);

/** This rank: the step of the newest checkpoint that is complete, but not copied to --checkpoint-copy; UINT64_MAX: none. */
uint64_t checkpoint_writer_uncopied(const struct checkpoint_writer *writer);

/** This rank: whether a checkpoint or a copy is being written, beside the steps. NULL: no. */
bool checkpoint_writer_is_busy(const struct checkpoint_writer *writer);

/** This rank: cancel the current checkpoint, wait for the thread, free. NULL is allowed. */
void checkpoint_writer_close(struct checkpoint_writer *writer);

#endif
