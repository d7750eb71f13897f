/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The training loop: prepares a run from its configuration, takes the steps, evaluates, checkpoints, samples.
 *
 *     trainer_open -> trainer_run -> trainer_close
 *
 * All three are collective over the communicator. Where preparation or a checkpoint fails on one rank, all ranks return
 * the same status and message, and *speaks is true on the rank that should print the message.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_TRAINER_H
#define WEFT_TRAINING_TRAIN_LOOP_TRAINER_H

#include "training/train/state/config.h"

#include <stdatomic.h>
#include <stdio.h>

struct trainer;

/**
 * Prepare: data, model, weights (initial, or from a checkpoint), distributed to every rank. `out` receives output for users,
 * on rank 0 (NULL: nothing); if that is lost, the new rank 0 writes to its own. With config.min_ranks, `comm` is
 * weft_world(). `*stop`, when it becomes non-zero on any rank (the number of a signal), ends the run after
 * the current step, or the current micro-batch of an evaluation, with a checkpoint. An interrupted evaluation leaves no
 * record; the resumed run repeats it.
 */
weft_status trainer_open(const struct train_config *config, weft_context *context, weft_comm *comm, FILE *out,
                         const atomic_int *stop, struct trainer **trainer, bool *speaks, struct error *error);

/**
 * Take all steps that remain, evaluate, write checkpoints, sample. The last checkpoint is complete before the last
 * evaluation begins. If ranks are lost and config.min_ranks are left, the run continues with these; then what
 * trainer_executor() returned before is no longer valid.
 */
weft_status trainer_run(struct trainer *trainer, bool *speaks, struct error *error);

/** The greatest `*stop` of all ranks, where it ended the run; 0 on all ranks otherwise. */
int trainer_stopped_by(const struct trainer *trainer);

/** Floating-point operations of one step, on all ranks together (model_flops_per_token()). */
double trainer_step_flops(const struct trainer *trainer);

/** The estimate of this rank's memory, in bytes: training/train/loop/memory.h. */
uint64_t trainer_predicted_memory(const struct trainer *trainer);

/** The device that this rank computes on; owned by the trainer. */
struct device *trainer_device(const struct trainer *trainer);

/** The executor of its steps; owned by the trainer (training/parallel/execute/executor.h). */
struct executor *trainer_executor(const struct trainer *trainer);

/** The network that is trained. */
const struct model_description *trainer_description(const struct trainer *trainer);

void trainer_close(struct trainer *trainer);

#endif
