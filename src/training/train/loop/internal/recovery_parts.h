/* SPDX-License-Identifier: Apache-2.0 */
/** Shared by the files of a recovery: what is known of it. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RECOVERY_PARTS_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_RECOVERY_PARTS_H

#include "training/train/loop/internal/recovery.h"
#include "training/train/loop/internal/trainer_parts.h"

struct recovery {
    struct report_recovery report;
    uint64_t mark;    /* when its phase began */
    bool is_in_world; /* the ranks of the job are already those of the recovery */
    bool is_over;     /* this rank cannot continue with the others */
    bool lacks_mesh;  /* there is none for the ranks that are left */
    bool begins;      /* no rank has the run, because some were lost before its beginning: the others begin it */

    /* Where the state is from. */
    bool holds_state; /* the former executor's weights and moments are those of the step to continue from */
    bool any_rank_holds_state;
    uint64_t copy;         /* the step of the newest copy that the survivors have; UINT64_MAX: none */
    bool previous_is_lost; /* the previous rank, whose copies this rank has */
    bool must_report_step; /* nobody may have reported the last step */
};

/** The newest checkpoint that the run has written may be that of `step` (UINT64_MAX: none). */
void recovery_note_checkpoint(struct trainer_course *course, uint64_t step);

/** As many ranks as there is a mesh for, by trainer->first_mesh; the others are spares. Collective over the job. Errors, on
 * all ranks: ARGUMENT or MEMORY with recovery->lacks_mesh. */
weft_status recovery_choose_ranks(struct trainer *trainer, struct recovery *recovery, bool *speaks,
                                  struct error *error);

/** Everything of the world but the state, which is 0. Spares have nothing. Collective over the job. */
weft_status recovery_open_world(struct trainer *trainer, bool *speaks, struct error *error);

/* Both are collective over the job, and fail on all ranks or none; *speaks as for agreement_reach(). */

/** Agree how far the run has come, and bring this rank there if it can be. */
weft_status recovery_agree_on_step(struct trainer *trainer, struct recovery *recovery, bool *speaks,
                                   struct error *error);

/** Fill the weights and moments of the new world. */
weft_status recovery_restore(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error);

#endif
