/* SPDX-License-Identifier: Apache-2.0 */
/* Where weights and moments come from after the ranks have changed: the former world, copies, storage. */
#include "training/train/loop/internal/recovery_parts.h"

#include "base/library_error.h"
#include "training/checkpoint/directory.h"
#include "training/parallel/state_transfer.h"
#include "training/train/loop/internal/initial_state.h"

#include <stdlib.h>

/* The new world's pieces over all ranks of the job: spares have none. */
static weft_status open_target(struct trainer *trainer, struct state_layout **target, bool *speaks, struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    struct state_pieces pieces = {.description = trainer->description};
    weft_status status = WEFT_OK;
    if (!trainer_world_is_spare(world))
        status = executor_state_pieces(world->executor, trainer->description, &pieces, error);
    status = trainer_agree_in_job(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = state_layout_open(trainer->context, world->job, &pieces, target, speaks, error);
    free(pieces.pieces);
    return status;
}

/* Move the survivors' pieces to where the new world has them. *moved: every element was there. */
static weft_status move_state(struct trainer *trainer, const struct state_pieces *pieces, bool *moved, bool *speaks,
                              struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    struct state_layout *source = NULL, *target = NULL;
    weft_status status = state_layout_open(trainer->context, world->job, pieces, &source, speaks, error);
    *moved = false;
    if (status == WEFT_ERROR_ARGUMENT) { /* no rank holds some element */
        error_clear(error);
        return WEFT_OK;
    }
    if (status == WEFT_OK && world->ranks < world->job_ranks)
        status = open_target(trainer, &target, speaks, error);
    if (status == WEFT_OK)
        status = state_layout_move(source, target ? target : world->layout, error);
    state_layout_close(source);
    state_layout_close(target);
    *moved = status == WEFT_OK;
    if (*moved && world->executor)
        value_groups_changed(executor_values(world->executor));
    return status;
}

/* Weights and moments as the survivors' former executors have them. */
static weft_status take_state(struct trainer *trainer, const struct recovery *recovery, bool *taken, bool *speaks,
                              struct error *error)
{
    struct state_pieces pieces = {.description = trainer->description};
    weft_status status = WEFT_OK;
    if (!recovery->any_rank_holds_state)
        return WEFT_OK;
    if (recovery->holds_state)
        status = executor_state_pieces(trainer->former.executor, trainer->description, &pieces, error);
    status = trainer_agree_in_job(trainer, status, speaks, error);
    trainer->former.is_overwritten |= !recovery->holds_state;
    if (status == WEFT_OK)
        status = move_state(trainer, &pieces, taken, speaks, error);
    free(pieces.pieces);
    return status;
}

/* How far the run had come at the copy of `step`, from the lowest rank that has one. */
static weft_status share_progress(struct trainer *trainer, uint64_t step, struct error *error)
{
    const struct trainer_world *former = &trainer->former, *world = &trainer->world;
    struct training_progress progress = {0};
    uint32_t lowest = former->copies ? world->rank : world->job_ranks;
    if (former->copies)
        progress = former->copied[former->copied[1].step == step];
    weft_status status = weft_allreduce(&lowest, &lowest, 1, WEFT_U32, WEFT_MIN, world->job);
    if (status == WEFT_OK)
        status = weft_broadcast(&progress, sizeof progress, WEFT_U8, (int)lowest, world->job);
    if (status == WEFT_OK)
        trainer_set_progress(trainer, &progress);
    return library_error(trainer->context, status, error);
}

/* The newest copy that is whole. */
static weft_status take_copy(struct trainer *trainer, const struct recovery *recovery, bool *taken, bool *speaks,
                             struct error *error)
{
    const struct trainer_world *former = &trainer->former;
    struct state_pieces pieces = {.description = trainer->description};
    if (recovery->copy == UINT64_MAX)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    if (former->copies)
        status = state_copies_pieces(former->copies, recovery->copy, recovery->previous_is_lost, &pieces, error);
    status = trainer_agree_in_job(trainer, status, speaks, error);
    trainer->former.is_overwritten = true;
    if (status == WEFT_OK)
        status = move_state(trainer, &pieces, taken, speaks, error);
    free(pieces.pieces);
    if (status != WEFT_OK || !*taken)
        return status;
    return share_progress(trainer, recovery->copy, error);
}

/* To the newest checkpoint, or to where the run began. */
static weft_status go_back(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    char own[FILE_PATH_BYTES], found[FILE_PATH_BYTES];
    const char *directory = config->resume;
    if (trainer_world_is_spare(&trainer->world))
        return WEFT_OK;
    if (trainer->course.checkpoint != UINT64_MAX && /* not the newest there: it may be another run's */
        directory_of_step(config->checkpoint_dir, trainer->course.checkpoint, own, NULL) == WEFT_OK)
        directory = own;
    if (!directory && config->from) {
        trainer->agreed = true;
        *speaks = trainer->world.rank == 0;
        return error_set(error, WEFT_ERROR_DATA,
                         "weights and moments were lost with a rank, and there is no checkpoint to go back to; give "
                         "--checkpoint-dir and --checkpoint-every");
    }
    trainer->former.is_overwritten = true;
    value_groups_clear(executor_values(trainer->world.executor));
    initial_state_clear(trainer);
    weft_status status = initial_state_find(trainer, directory, found, speaks, error);
    if (status == WEFT_OK)
        status = initial_state_set(trainer, *found ? found : NULL, speaks, error);
    trainer->course.begin = trainer->state.step;
    return status;
}

weft_status recovery_restore(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    struct trainer_course *course = &trainer->course;
    const struct training_state *state = &trainer->state;
    bool taken = false;
    recovery->report.before = state->step;
    recovery->report.source = REPORT_FROM_MEMORY;
    weft_status status = take_state(trainer, recovery, &taken, speaks, error);
    if (status == WEFT_OK && !taken) {
        recovery->report.source = REPORT_FROM_COPIES;
        status = take_copy(trainer, recovery, &taken, speaks, error);
    }
    if (status == WEFT_OK && !taken) {
        recovery->report.source = REPORT_FROM_STORAGE;
        status = trainer_agree_in_job(trainer, go_back(trainer, speaks, error), speaks, error); /* spares do nothing */
    }
    recovery->report.step = state->step;
    course->saved = UINT64_MAX;
    course->evaluated = state->early_stopping.last_step == state->step ? state->step : UINT64_MAX;
    course->is_best = trainer->config.patience && state->step && state->early_stopping.best_step == state->step;
    return status;
}
