/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a run has only as long as its ranks stay the same: the mesh, the executor with its weights and moments, the
 * layout of the state, the writer of checkpoints. After a failure the survivors open another one, and take the state of
 * the former one over (recovery.h).
 *
 *     enter -> settle -> open -> open_copies, open_writer -> close
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_TRAINER_WORLD_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_TRAINER_WORLD_H

#include "training/parallel/execute/executor.h"
#include "training/parallel/state_copies.h"
#include "training/train/loop/memory.h"
#include "training/train/state/checkpoint_writer.h"
#include "training/train/state/state.h"

struct trainer;

/** How far a run has come, besides weights and moments. */
struct training_progress {
    uint64_t step;
    struct early_stopping early_stopping;
    struct loss_scale loss_scale;
    struct executor_result last; /**< of the last step */
};

struct trainer_world {
    weft_comm *job;      /**< of all ranks of the job; the context's */
    uint32_t job_ranks;  /**< of them the first train, and the others are spares: the mesh has no place for them */
    weft_comm *comm;     /**< of those that train; NULL on a spare */
    weft_comm *commands; /**< of all, where there are spares: rank 0's messages to them (spares.h) */
    uint32_t rank;       /**< in the job */
    uint32_t ranks;      /**< that train */
    uint32_t *nodes;     /**< that the ranks are on */
    struct parallel_choice parallel;
    struct memory_estimate memory; /**< of this rank */
    struct model_description *own; /**< the network, as far as it is this rank's */
    struct executor *executor;
    uint64_t step;       /**< of a former world: the steps that are whole in its weights and moments */
    bool is_settled;     /**< nothing of a step is under way, so that all weights and moments are those of its end */
    bool is_overwritten; /**< of a former world: the next one has written other values into arrays that both share */
    bool is_whole;       /**< it has its part of the state, and after a recovery copies of it are on other ranks */
    struct state_layout *layout;        /**< which rank holds which weights and moments */
    struct state_copies *copies;        /**< NULL: not needed (parallel_choice_needs_copies()) */
    struct training_progress copied[2]; /**< of the newest two copies */
    int previous;                       /**< the rank whose copies are here: its number when the job began */
    struct checkpoint_writer *writer;   /**< NULL: no checkpoints */
};

/** Begin trainer->world, with all ranks of `job`, which all train. Local. */
void trainer_world_enter(struct trainer *trainer, weft_comm *job);

/** Only the first `ranks` ranks of the job train. Collective over the job. Errors: those of weft_comm_split(). */
weft_status trainer_world_divide(struct trainer *trainer, uint32_t ranks, struct error *error);

/** Whether this rank waits until it is needed. */
static inline bool trainer_world_is_spare(const struct trainer_world *world)
{
    return world->rank >= world->ranks;
}

/* The others are collective over the world's ranks, and fail on all of them or none; *speaks as for agreement_reach(). */

/** Choose mesh, placement and schedule for the ranks of trainer->world, measure what layers cost where a pipeline divides
 * them, and check that the ranks of each node fit into its memory. Errors: those of parallel_choice_of() and
 * parallel_choice_place(); MEMORY. */
weft_status trainer_world_settle(struct trainer *trainer, bool *speaks, struct error *error);

/** Open executor and layout. Weights and moments are 0. */
weft_status trainer_world_open(struct trainer *trainer, bool *speaks, struct error *error);

/** Open the copies on other ranks, where they are needed, and copy the state. */
weft_status trainer_world_open_copies(struct trainer *trainer, bool *speaks, struct error *error);

/** Between steps: copy the state, if it is time, or in any case `now`, unless this step's is begun. Errors: the library's,
 * perhaps on this rank alone. */
weft_status trainer_world_copy(struct trainer *trainer, bool now, struct error *error);

/** Open the writer, where the run writes checkpoints. Rank 0 has claimed their directory. */
weft_status trainer_world_open_writer(struct trainer *trainer, bool *speaks, struct error *error);

/** Local. Allowed on a zeroed struct. */
void trainer_world_close(struct trainer_world *world);

#endif
