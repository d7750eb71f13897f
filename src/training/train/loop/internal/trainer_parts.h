/* SPDX-License-Identifier: Apache-2.0 */
/** The trainer's members, shared by the files of the loop. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_TRAINER_PARTS_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_TRAINER_PARTS_H

#include "training/checkpoint/checkpoint.h"
#include "training/data/dataset.h"
#include "training/parallel/agreement.h"
#include "training/train/loop/internal/stragglers.h"
#include "training/train/loop/internal/trainer_world.h"
#include "training/train/loop/trainer.h"
#include "training/train/report/report.h"
#include "training/train/state/state.h"
#include "training/train/text/text.h"

/** Progress of a run, besides its state. */
struct trainer_course {
    uint64_t begin, end;       /* steps taken when it began or resumed; step after which it ends this time */
    uint64_t saved, evaluated; /* steps taken at the last checkpoint, at the last evaluation; UINT64_MAX: none yet */
    bool stopping;             /* some rank was asked to stop; the same on all ranks */
    bool joining;              /* ranks wait to join; the same on all ranks */
    bool is_best;              /* under --patience: the last evaluation was the best, and no checkpoint has it yet */
    uint64_t checkpoint;       /* the newest one that this run has written; UINT64_MAX: none */
    uint64_t uncopied;         /* one that a former writer has not copied; UINT64_MAX: none */

    /* The last step. */
    struct executor_result last;
    double loss_scale;
    uint64_t step_began; /* clock_now() */
    uint64_t read_time;  /* trainer.read_time when it began */
};

struct trainer {
    struct train_config config;
    const struct train_config *given; /* the caller's, until the run has begun */
    weft_context *context;
    struct trainer_world world;  /* of its ranks */
    struct trainer_world former; /* the world before a loss, until `world` has its weights and moments */
    FILE *user_output;           /* where this rank writes if it is rank 0; NULL: nowhere */
    FILE *out;                   /* the same on rank 0, otherwise NULL */
    const atomic_int *stop;
    int stopped_by; /* the greatest *stop of all ranks, if it ended the run */

    struct checkpoint_claim *claim; /* rank 0's on the directory of checkpoints */
    struct kernel_choice kernels;   /* of all ranks */
    struct device *device;
    struct model_description *description; /* of the whole network */
    struct text text;                      /* of the data's tokens */
    struct sample_source *source;
    struct dataset_identity identity;    /* of it, on rank 0, where checkpoints are read or written */
    char changes[SETTINGS_TEXT_BYTES];   /* of settings since the checkpoint that was resumed, on rank 0 */
    struct checkpoint_identity verified; /* of the checkpoint to resume from, on the rank 0 that has read it all */
    uint64_t touchable;                  /* bytes of memory on this node, before any rank has taken some */
    bool is_new;                         /* it has joined the job, and does not have the run's state yet */
    bool prepares_to_begin;              /* what is prepared is for a beginning, not to join a run */
    uint32_t first_ranks;            /* of a rank that was there when the job began: how many there were; otherwise 0 */
    bool left_plan;                  /* config.first_unit and shares are no longer those of a plan */
    struct mesh first_mesh;          /* that the run began with */
    char mesh[MESH_TEXT_BYTES];      /* config.mesh, where another one was chosen after ranks changed */
    char placement[MESH_TEXT_BYTES]; /* of a newcomer: config.placement, as the others have it */
    char resume[FILE_PATH_BYTES];    /* config.resume, the same on all ranks */
    double *costs;                   /* of the layers, to balance a pipeline */
    double device_peak;              /* of this rank alone, once it is measured */
    uint32_t rate_ranks;             /* data ranks that the learning rate was scaled for */
    struct device *sums;             /* for gradients: it can round to bf16 */
    struct training_state state;
    struct trainer_course course;
    struct straggler_watch stragglers;
    struct report report;
    bool reports;   /* the report has sinks */
    bool has_left;  /* the job: the others go on without this rank */
    bool gives_way; /* it fails as a straggler, and the others go on */
    struct learning_rate schedule;
    uint64_t read_time; /* total nanoseconds of reading data */
    bool agreed;        /* all ranks have the same failure */
};

/** How far the run has come; and set it. Weights and moments are not touched. */
struct training_progress trainer_progress(const struct trainer *trainer);
void trainer_set_progress(struct trainer *trainer, const struct training_progress *progress);

/**
 * Forget all that has been prepared, take the configuration as the caller gave it, and settle what that leaves open.
 * Collective if the run `begins`, otherwise local. Errors: those of config.settle().
 */
weft_status trainer_prepare_again(struct trainer *trainer, bool begins, bool *speaks, struct error *error);

struct text_sources trainer_text_sources(const struct train_config *config);

/** Devices, text, model and data, then the profile: what a rank prepares alone. Local. */
weft_status trainer_prepare_model(struct trainer *trainer, struct error *error);
weft_status trainer_prepare_profile(struct trainer *trainer, struct error *error);

/** On rank 0: claim the directory of checkpoints, and identify the data. Local. Errors: those of checkpoint_claim() and
 * dataset_identify(). */
weft_status trainer_open_checkpoints(struct trainer *trainer, struct error *error);

struct report_options trainer_report_options(const struct trainer *trainer);

/** Open the report, with its sinks on rank 0. Local. Errors: those of report_open(). */
weft_status trainer_open_report(struct trainer *trainer, struct error *error);

/** The peak of all ranks together, which may be on machines of different kinds, in operations a second. Collective. */
weft_status trainer_measure_peak(struct trainer *trainer, double *peak, struct error *error);

/** Report that the run begins here; `peak` is that of trainer_measure_peak(), or 0. Local. */
void trainer_begin_report(struct trainer *trainer, double peak);

/** Report the last step. */
void trainer_report_step(struct trainer *trainer);

/** Fail on all ranks or on none: see training/parallel/agreement.h. */
static inline weft_status trainer_agree(struct trainer *trainer, weft_status status, bool *speaks, struct error *error)
{
    status = agreement_reach(trainer->context, trainer->world.comm, status, error, speaks);
    trainer->agreed = status != WEFT_OK;
    return status;
}

/** The same among all ranks of the job, spares included. */
static inline weft_status trainer_agree_in_job(struct trainer *trainer, weft_status status, bool *speaks,
                                               struct error *error)
{
    status = agreement_reach(trainer->context, trainer->world.job, status, error, speaks);
    trainer->agreed = status != WEFT_OK;
    return status;
}

#endif
