/* SPDX-License-Identifier: Apache-2.0 */
/* How far the ranks have come, after a failure or before others join. */
#include "training/train/loop/internal/recovery_parts.h"

#include "base/library_error.h"

#include <stdlib.h>
#include <string.h>

/* Sent as bytes. */
struct rank_progress {
    struct training_progress run;               /* as it is in the rank's weights and moments */
    uint64_t gradient_of;                       /* the step after that, if the rank can complete it; 0: it cannot */
    uint64_t own_copies[2], previous_copies[2]; /* the steps of its copies; UINT64_MAX: none */
    bool has_part;                              /* of the state: it has trained; neither a newcomer nor a spare */
    bool is_intact;                             /* a failed step leaves no part of its weights and moments updated */
    bool previous_is_lost;
    bool stopping;
    uint64_t begin;      /* of the run */
    uint64_t checkpoint; /* the newest that the run has written; UINT64_MAX: none */
};

void recovery_note_checkpoint(struct trainer_course *course, uint64_t step)
{
    if (step != UINT64_MAX && (course->checkpoint == UINT64_MAX || step > course->checkpoint))
        course->checkpoint = step;
}

static bool is_lost(const struct trainer *trainer, int first_rank)
{
    for (int r = 0; r < (int)trainer->world.job_ranks; r++)
        if (weft_comm_first_rank(trainer->world.job, r) == first_rank)
            return false;
    return true;
}

static void describe_part(const struct trainer *trainer, struct rank_progress *progress)
{
    const struct trainer_world *former = &trainer->former;
    const struct executor_config executor = parallel_choice_executor(&trainer->config, &former->parallel);
    progress->has_part = true;
    progress->run.step = former->step;
    progress->is_intact = !former->is_overwritten && (former->is_settled || executor_updates_alone(&executor));
    if (!former->is_overwritten && !former->is_settled && executor_has_gradient(former->executor, former->step + 1))
        progress->gradient_of = former->step + 1;
    if (!former->copies)
        return;
    state_copies_steps(former->copies, false, progress->own_copies);
    state_copies_steps(former->copies, true, progress->previous_copies);
    progress->previous_is_lost = is_lost(trainer, former->previous);
}

static struct rank_progress progress_of(const struct trainer *trainer)
{
    struct rank_progress progress;
    memset(&progress, 0, sizeof progress); /* and what lies between its members */
    progress.run = trainer_progress(trainer);
    progress.own_copies[0] = progress.own_copies[1] = UINT64_MAX;
    if (trainer->former.executor)
        describe_part(trainer, &progress);
    progress.stopping = trainer->course.stopping;
    progress.begin = trainer->course.begin;
    progress.checkpoint = trainer->course.checkpoint;
    return progress;
}

/* Whether a rank has, or can have, its part of the state after `step`. */
static bool reaches(const struct rank_progress *progress, uint64_t step)
{
    return progress->has_part && progress->is_intact && (progress->run.step == step || progress->gradient_of == step);
}

static bool has_copy(const struct rank_progress *progress, uint64_t step)
{
    const uint64_t *own = progress->own_copies, *previous = progress->previous_copies;
    return (own[0] == step || own[1] == step) &&
           (!progress->previous_is_lost || previous[0] == step || previous[1] == step);
}

/* The rank that has come farthest: one that has trained, if there is one. */
static const struct rank_progress *find_lead(const struct rank_progress *all, uint32_t ranks)
{
    const struct rank_progress *lead = &all[0];
    for (uint32_t r = 1; r < ranks; r++) {
        const struct rank_progress *other = &all[r];
        const struct training_progress *run = &other->run;
        bool is_ahead = run->step > lead->run.step;
        if (run->step == lead->run.step)
            is_ahead = run->early_stopping.last_step > lead->run.early_stopping.last_step;
        if (other->has_part != lead->has_part)
            is_ahead = other->has_part;
        lead = is_ahead ? other : lead;
    }
    return lead;
}

/* The newest step of which every rank that has trained has copies: of its own part, and of its lost neighbor's. */
static uint64_t find_copy(const struct rank_progress *all, uint32_t ranks)
{
    const struct rank_progress *lead = find_lead(all, ranks);
    uint64_t newest = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        const uint64_t step = lead->own_copies[i];
        bool is_whole = step != UINT64_MAX;
        for (uint32_t r = 0; r < ranks; r++)
            is_whole &= !all[r].has_part || has_copy(&all[r], step);
        if (is_whole && (newest == UINT64_MAX || step > newest))
            newest = step;
    }
    return newest;
}

static void note_requests(struct trainer_course *course, const struct rank_progress *all, uint32_t ranks)
{
    course->begin = find_lead(all, ranks)->begin;
    for (uint32_t r = 0; r < ranks; r++) {
        course->stopping |= all[r].stopping;
        recovery_note_checkpoint(course, all[r].checkpoint);
    }
}

/* Continue from where the rank is that has come farthest. */
static weft_status reach_lead(struct trainer *trainer, const struct rank_progress *all, struct recovery *recovery,
                              struct error *error)
{
    const uint32_t ranks = trainer->world.job_ranks;
    const struct rank_progress *own = &all[trainer->world.rank], *lead = find_lead(all, ranks);
    weft_status status = WEFT_OK;
    note_requests(&trainer->course, all, ranks);
    recovery->copy = find_copy(all, ranks);
    recovery->previous_is_lost = own->previous_is_lost;
    recovery->holds_state = reaches(own, lead->run.step);
    recovery->any_rank_holds_state = false;
    for (uint32_t r = 0; r < ranks; r++) /* former worlds may differ, after a recovery that not all ranks completed */
        recovery->any_rank_holds_state |= reaches(&all[r], lead->run.step);
    if (recovery->holds_state && own->run.step < lead->run.step) {
        status = executor_complete_step(trainer->former.executor, &lead->run.last, error);
        recovery->must_report_step = true;
    }
    if (recovery->holds_state && status == WEFT_OK)
        trainer->former.step = lead->run.step;
    trainer_set_progress(trainer, &lead->run);
    return status;
}

weft_status recovery_agree_on_step(struct trainer *trainer, struct recovery *recovery, bool *speaks,
                                   struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    const struct rank_progress own = progress_of(trainer);
    struct rank_progress *all = calloc(world->job_ranks, sizeof *all);
    weft_status status = all ? WEFT_OK : error_memory(error, world->job_ranks * sizeof *all, "the states of the ranks");
    status = trainer_agree_in_job(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = library_error(trainer->context, weft_allgather(&own, all, sizeof own, WEFT_U8, world->job), error);
    if (status == WEFT_OK)
        status = trainer_agree_in_job(trainer, reach_lead(trainer, all, recovery, error), speaks, error);
    free(all);
    return status;
}
