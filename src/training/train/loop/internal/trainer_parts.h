/* SPDX-License-Identifier: Apache-2.0 */
/** The trainer's members, shared by trainer.c (the loop) and trainer_open.c (preparation). */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_TRAINER_PARTS_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_TRAINER_PARTS_H

#include "training/checkpoint/checkpoint.h"
#include "training/data/dataset.h"
#include "training/parallel/agreement.h"
#include "training/parallel/execute/executor.h"
#include "training/train/loop/memory.h"
#include "training/train/loop/trainer.h"
#include "training/train/report/report.h"
#include "training/train/state/checkpoint_writer.h"
#include "training/train/state/state.h"
#include "training/train/text/text.h"

struct trainer {
    struct train_config config;
    weft_context *context;
    weft_comm *comm;
    uint32_t rank, ranks;
    FILE *out;
    const atomic_int *stop;
    int stopped_by; /* the greatest *stop of all ranks, if it ended the run */

    struct checkpoint_claim *claim; /* rank 0's on the directory of checkpoints */
    struct kernel_choice kernels;   /* of all ranks */
    struct device *device;
    struct model_description *description; /* of the whole network */
    struct model_description *own;         /* as far as it is this rank's */
    struct text text; /* of the data's tokens */
    struct dataset *dataset;
    struct dataset_identity identity;  /* of it, on rank 0, where checkpoints are read or written */
    char changes[SETTINGS_TEXT_BYTES]; /* of settings since the checkpoint that was resumed, on rank 0 */
    uint32_t *nodes;                   /* that the ranks are on */
    struct parallel_choice parallel;
    double *costs;                 /* of the layers, to balance a pipeline */
    struct memory_estimate memory; /* of this rank */
    struct device *sums;           /* for gradients: it can round to bf16 */
    struct executor *executor;
    struct state_layout *layout; /* which rank holds which weights and moments */
    struct training_state state;
    struct checkpoint_writer *writer; /* NULL: no checkpoints */
    struct report report;
    struct learning_rate schedule;
    uint64_t read_time; /* total nanoseconds of reading data */
    bool agreed;        /* all ranks have the same failure */
};

/** Fail on all ranks or on none: see training/parallel/agreement.h. */
static inline weft_status trainer_agree(struct trainer *trainer, weft_status status, bool *speaks, struct error *error)
{
    status = agreement_reach(trainer->context, trainer->comm, status, error, speaks);
    trainer->agreed = status != WEFT_OK;
    return status;
}

#endif
