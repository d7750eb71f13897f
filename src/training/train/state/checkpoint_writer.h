/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checkpoints written beside training, by a thread of each rank that writes a part.
 *
 *     begin     at the end of a step: who writes what is found, threads start                             all ranks
 *     (threads) hash and write their parts straight from weights and moments, which the next forward and backward leave
 * alone release   before the next update: what is not written by then is copied (training/train/state/internal/array_snapshot.h)            each rank
 *     poll      at the end of every step: when all parts are written, rank 0's thread writes the manifest and gives the
 *               checkpoint its name; when it has, or when somebody failed, all ranks know                  all ranks
 *
 * So training pauses for the making of a directory, for the copy of what a busy core or a slow disk left unread, and where
 * a checkpoint becomes due while one is under way: there is at most one. The thread runs at a lower priority (nice 5),
 * so that it takes a core that is free, and a quarter of one that computes; a checkpoint with which the run ends is not
 * slowed.
 *
 * Memory, from opening to closing: room to copy this rank's part of a checkpoint (12 bytes a parameter with AdamW,
 * divided by the ranks that write), touched in the background at the start. It counts as this process's, but while no
 * checkpoint is under way the system may take it back (training/train/state/internal/array_snapshot.h). Where shards of moments are gathered
 * (checkpoint_parts.h) rank 0 has room for all of them from begin to the end of writing.
 *
 * What failed in the background is told by the next call that is collective, on all ranks with the same message; older
 * checkpoints are as they were. With `go_on` it is said, and training goes on without that checkpoint.
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
    const struct shards *shards;
    struct report *report; /**< where what was written is told; rank 0's */
};

/** All ranks: find out who sees the directory, which rank 0 has claimed. The setup is borrowed but for itself. */
weft_status checkpoint_writer_open(const struct checkpoint_writer_setup *setup, struct checkpoint_writer **writer,
                                   bool *speaks, struct error *error);

/**
 * All ranks: begin a checkpoint of the state as it is, after waiting for the one under way. With `last` the caller has
 * nothing else to do than to wait for it. Errors, those of the one under way among them, are on all ranks.
 */
weft_status checkpoint_writer_begin(struct checkpoint_writer *writer, bool last, bool *speaks, struct error *error);

/** This rank: weights and moments may be changed once this returns. Before every update. */
void checkpoint_writer_release(struct checkpoint_writer *writer);

/** All ranks: see above; never waits for a disk. */
weft_status checkpoint_writer_poll(struct checkpoint_writer *writer, bool *speaks, struct error *error);

/** All ranks: wait until nothing is under way. A checkpoint that failed is an error here, whatever `go_on` says. */
weft_status checkpoint_writer_finish(struct checkpoint_writer *writer, bool *speaks, struct error *error);

/**
 * All ranks: let the newest checkpoint, which is whole and of the step that the state is at, say what the state
 * remembers of evaluations by now. Its tensors are not written again.
 */
weft_status checkpoint_writer_amend(struct checkpoint_writer *writer, bool *speaks, struct error *error);

/** This rank: give up what is under way, wait for the thread, free. NULL is harmless. */
void checkpoint_writer_close(struct checkpoint_writer *writer);

#endif
