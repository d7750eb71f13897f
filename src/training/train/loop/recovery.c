/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/recovery.h"

#include "base/clock.h"
#include "base/library_error.h"
#include "training/checkpoint/directory.h"
#include "training/parallel/state_transfer.h"
#include "training/train/loop/internal/initial_state.h"
#include "training/train/loop/internal/trainer_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool recovery_is_possible(const struct trainer *trainer, weft_status status)
{
    return trainer->config.min_ranks && (status == WEFT_ERROR_PEER || status == WEFT_ERROR_TIMEOUT ||
                                         status == WEFT_ERROR_ABORTED || status == WEFT_ERROR_NETWORK);
}

struct recovery {
    struct report_recovery report;
    uint64_t mark; /* when its phase began */
    bool is_over;  /* this rank cannot continue with the others */

    /* Where the state is from. */
    bool holds_state; /* the former executor's weights and moments are those of the step to continue from */
    bool any_rank_holds_state;
    uint64_t copy;         /* the step of the newest copy that the survivors have; UINT64_MAX: none */
    bool previous_is_lost; /* the previous rank, whose copies this rank has */
    bool must_report_step; /* nobody may have reported the last step */
};

/* ---- the ranks that are left ---- */

/* The state stays where it is until the next world has it. */
static void leave_world(struct trainer *trainer)
{
    struct trainer_world *world = &trainer->world;
    trainer->state.layout = NULL;
    if (trainer->former.executor && !world->is_whole) { /* it was still being opened */
        trainer_world_close(world);
        return;
    }
    trainer_world_close(&trainer->former);
    state_layout_close(world->layout);
    world->layout = NULL;
    world->step = trainer->state.step;
    trainer->former = *world;
}

static void note_checkpoint(struct trainer_course *course, uint64_t step)
{
    if (step != UINT64_MAX && (course->checkpoint == UINT64_MAX || step > course->checkpoint))
        course->checkpoint = step;
}

static weft_status find_survivors(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    const uint32_t least = trainer->config.min_ranks;
    if (trainer->world.writer)
        note_checkpoint(&trainer->course, checkpoint_writer_completed(trainer->world.writer));
    checkpoint_writer_close(trainer->world.writer);
    trainer->world.writer = NULL;
    weft_status status = library_error(trainer->context, weft_shrink(trainer->context), error);
    *speaks = recovery->is_over = status != WEFT_OK; /* the others do not hear of it */
    if (status != WEFT_OK)
        return status;
    leave_world(trainer);
    trainer_world_enter(trainer, weft_world(trainer->context));
    if (trainer->world.ranks >= least)
        return WEFT_OK;
    recovery->is_over = trainer->agreed = true;
    *speaks = trainer->world.rank == 0;
    return error_set(error, WEFT_ERROR_PEER, "%u of %u ranks are left, fewer than --min-ranks %u: %s",
                     trainer->world.ranks, trainer->former.ranks, least, recovery->report.reason);
}

/* ---- how far the run has come ---- */

/* Sent as bytes. */
struct rank_progress {
    struct training_progress run;               /* as it is in the rank's weights and moments */
    uint64_t gradient_of;                       /* the step after that, if the rank can complete it; 0: it cannot */
    uint64_t own_copies[2], previous_copies[2]; /* the steps of its copies; UINT64_MAX: none */
    bool is_intact;                             /* a failed step leaves no part of its weights and moments updated */
    bool previous_is_lost;
    bool stopping;
    uint64_t checkpoint; /* the newest that the run has written; UINT64_MAX: none */
};

static bool is_lost(const struct trainer *trainer, int first_rank)
{
    for (int r = 0; r < (int)trainer->world.ranks; r++)
        if (weft_comm_first_rank(trainer->world.comm, r) == first_rank)
            return false;
    return true;
}

static struct rank_progress progress_of(const struct trainer *trainer)
{
    const struct trainer_world *former = &trainer->former;
    const struct executor_config executor = parallel_choice_executor(&trainer->config, &former->parallel);
    struct rank_progress progress;
    memset(&progress, 0, sizeof progress); /* and what lies between its members */
    progress.run = trainer_progress(trainer);
    progress.run.step = former->step;
    progress.is_intact = executor_updates_alone(&executor);
    progress.gradient_of = executor_has_gradient(former->executor, former->step + 1) ? former->step + 1 : 0;
    progress.own_copies[0] = progress.own_copies[1] = UINT64_MAX;
    if (former->copies) {
        state_copies_steps(former->copies, false, progress.own_copies);
        state_copies_steps(former->copies, true, progress.previous_copies);
        progress.previous_is_lost = is_lost(trainer, former->previous);
    }
    progress.stopping = trainer->course.stopping;
    progress.checkpoint = trainer->course.checkpoint;
    return progress;
}

/* Whether a rank has, or can have, its part of the state after `step`. */
static bool reaches(const struct rank_progress *progress, uint64_t step)
{
    return progress->is_intact && (progress->run.step == step || progress->gradient_of == step);
}

static bool has_copy(const struct rank_progress *progress, uint64_t step)
{
    const uint64_t *own = progress->own_copies, *previous = progress->previous_copies;
    return (own[0] == step || own[1] == step) &&
           (!progress->previous_is_lost || previous[0] == step || previous[1] == step);
}

/* The step of the newest copy that all survivors have, of their own parts and of those that are lost. */
static uint64_t find_copy(const struct rank_progress *all, uint32_t ranks)
{
    uint64_t newest = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        const uint64_t step = all[0].own_copies[i];
        bool is_whole = step != UINT64_MAX;
        for (uint32_t r = 0; r < ranks; r++)
            is_whole &= has_copy(&all[r], step);
        if (is_whole && (newest == UINT64_MAX || step > newest))
            newest = step;
    }
    return newest;
}

/* The rank that has come farthest. */
static const struct rank_progress *find_lead(const struct rank_progress *all, uint32_t ranks)
{
    const struct rank_progress *lead = &all[0];
    for (uint32_t r = 1; r < ranks; r++) {
        const struct training_progress *run = &all[r].run;
        const bool is_ahead =
            run->step > lead->run.step ||
            (run->step == lead->run.step && run->early_stopping.last_step > lead->run.early_stopping.last_step);
        lead = is_ahead ? &all[r] : lead;
    }
    return lead;
}

static void note_requests(struct trainer_course *course, const struct rank_progress *all, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        course->stopping |= all[r].stopping;
        note_checkpoint(course, all[r].checkpoint);
    }
}

/* Continue from where the rank is that has come farthest. */
static weft_status reach_lead(struct trainer *trainer, const struct rank_progress *all, struct recovery *recovery,
                              struct error *error)
{
    const uint32_t ranks = trainer->world.ranks;
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

static weft_status agree_on_step(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    const struct rank_progress own = progress_of(trainer);
    struct rank_progress *all = calloc(world->ranks, sizeof *all);
    weft_status status = all ? WEFT_OK : error_memory(error, world->ranks * sizeof *all, "the states of the ranks");
    status = trainer_agree(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = library_error(trainer->context, weft_allgather(&own, all, sizeof own, WEFT_U8, world->comm), error);
    if (status == WEFT_OK)
        status = trainer_agree(trainer, reach_lead(trainer, all, recovery, error), speaks, error);
    free(all);
    return status;
}

/* ---- the mesh ---- */

/* The pipeline's ranks of attempt `number`: as before, then fewer, then more, up to `most`. 0: that was all. */
static uint32_t pipeline_of(uint32_t before, uint32_t most, uint32_t number)
{
    if (before > most)
        return number < most ? most - number : 0;
    return number < before ? before - number : number < most ? number + 1 : 0;
}

/* The first mesh that the ranks can have and that fits into their memory. */
static weft_status choose_mesh(struct trainer *trainer, const char *reason, bool *speaks, struct error *error)
{
    const struct mesh *before = &trainer->former.parallel.mesh;
    const uint32_t tensor = before->extent[MESH_TENSOR], ranks = trainer->world.ranks, places = ranks / tensor;
    weft_status status = WEFT_ERROR_ARGUMENT;
    error_set(error, status, "the tensor axis needs a multiple of %u ranks, and %u are left: %s", tensor, ranks,
              reason);
    uint32_t pipeline;
    for (uint32_t i = 0; status != WEFT_OK && ranks % tensor == 0 &&
                         (pipeline = pipeline_of(before->extent[MESH_PIPELINE], places, i)) > 0;
         i++) {
        const struct mesh mesh = {
            .extent = {[MESH_DATA] = places / pipeline, [MESH_PIPELINE] = pipeline, [MESH_TENSOR] = tensor}};
        if (places % pipeline)
            continue;
        error_clear(error);
        trainer->config.mesh = mesh_print(&mesh, trainer->mesh);
        status = trainer_agree(trainer, trainer_world_choose(trainer, error), speaks, error);
        if (status == WEFT_ERROR_ARGUMENT)
            continue;
        if (status != WEFT_OK)
            return status;
        if ((status = trainer_world_measure(trainer, speaks, error)) != WEFT_OK)
            return status;
        status = trainer_world_check(trainer, speaks, error);
        if (status != WEFT_OK && status != WEFT_ERROR_MEMORY)
            return status;
    }
    if (status != WEFT_OK)
        *speaks = trainer->world.rank == 0;
    trainer->agreed = status != WEFT_OK;
    return status;
}

/* ---- what rank 0 does ---- */

/* Before the state, which a checkpoint may have. Local. */
static weft_status take_over_checkpoints(struct trainer *trainer, struct error *error)
{
    const struct train_config *config = &trainer->config;
    weft_status status = WEFT_OK;
    if (trainer->world.rank != 0)
        return WEFT_OK;
    if (config->checkpoint_dir && !trainer->claim)
        status = checkpoint_claim(config->checkpoint_dir, &trainer->claim, error);
    if (status == WEFT_OK && (config->checkpoint_dir || config->resume) && !trainer->identity.hash)
        status = dataset_identify(trainer->dataset, &trainer->identity, error);
    return status;
}

/* Metrics go on if their files can be opened here. The run goes on in any case. */
static void take_over_report(struct trainer *trainer, struct recovery *recovery)
{
    struct report_run *run = &trainer->report.run;
    run->ranks = trainer->world.ranks;
    run->nodes = (uint64_t)weft_comm_nodes(trainer->world.comm);
    run->step = trainer->state.step;
    if (trainer->world.rank != 0 || trainer->reports)
        return;
    const struct report_run same = *run;
    struct error error = {0};
    recovery->must_report_step = true;
    report_close(&trainer->report);
    if (trainer_open_report(trainer, &error) != WEFT_OK) {
        const struct report_options lines = {
            .out = trainer->out, .warnings = trainer->config.warnings, .every = (uint64_t)trainer->config.log_every};
        report_close(&trainer->report);
        if (lines.warnings)
            fprintf(lines.warnings, "weft: %s; the run continues without metrics\n", error.text);
        (void)report_open(&trainer->report, &lines, &error);
    }
    report_begin(&trainer->report, &same);
}

/* ---- the state ---- */

/* Move the survivors' pieces to where the new world has them. *moved: every element was there. */
static weft_status move_state(struct trainer *trainer, const struct state_pieces *pieces, bool *moved, bool *speaks,
                              struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    struct state_layout *source = NULL;
    weft_status status = state_layout_open(trainer->context, world->comm, pieces, &source, speaks, error);
    *moved = false;
    if (status == WEFT_ERROR_ARGUMENT) { /* no rank holds some element */
        error_clear(error);
        return WEFT_OK;
    }
    if (status == WEFT_OK)
        status = state_layout_move(source, world->layout, error);
    state_layout_close(source);
    *moved = status == WEFT_OK;
    if (*moved)
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
    status = trainer_agree(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = move_state(trainer, &pieces, taken, speaks, error);
    free(pieces.pieces);
    return status;
}

/* The newest copy that is whole. */
static weft_status take_copy(struct trainer *trainer, const struct recovery *recovery, bool *taken, bool *speaks,
                             struct error *error)
{
    const struct trainer_world *former = &trainer->former;
    struct state_pieces pieces = {.description = trainer->description};
    if (recovery->copy == UINT64_MAX)
        return WEFT_OK;
    weft_status status =
        state_copies_pieces(former->copies, recovery->copy, recovery->previous_is_lost, &pieces, error);
    status = trainer_agree(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = move_state(trainer, &pieces, taken, speaks, error);
    free(pieces.pieces);
    if (status != WEFT_OK || !*taken)
        return status;
    trainer_set_progress(trainer, &former->copied[former->copied[1].step == recovery->copy]);
    return WEFT_OK;
}

/* To the newest checkpoint, or to where the run began. */
static weft_status go_back(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    char own[FILE_PATH_BYTES];
    const char *directory = config->resume;
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
    initial_state_clear(trainer);
    weft_status status = initial_state_set(trainer, directory, speaks, error);
    trainer->course.begin = trainer->state.step;
    return status;
}

static weft_status restore(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
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
        status = go_back(trainer, speaks, error);
    }
    recovery->report.step = state->step;
    course->saved = UINT64_MAX;
    course->evaluated = state->early_stopping.last_step == state->step ? state->step : UINT64_MAX;
    course->is_best = trainer->config.patience && state->step && state->early_stopping.best_step == state->step;
    return status;
}

/* ---- all of it ---- */

/* Seconds of the phase that ends here. */
static double end_phase(struct recovery *recovery)
{
    const uint64_t now = clock_now(), began = recovery->mark;
    recovery->mark = now;
    return (double)(now - began) * 1e-9;
}

/* The former world is needed until all ranks have the new one, with copies of it. */
static weft_status finish_copies(struct trainer *trainer, bool *speaks, struct error *error)
{
    struct trainer_world *world = &trainer->world;
    const weft_status status = world->copies ? state_copies_finish(world->copies, error) : WEFT_OK;
    world->is_whole = status == WEFT_OK;
    return trainer_agree(trainer, status, speaks, error);
}

static weft_status recover(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    struct report_recovery *report = &recovery->report;
    weft_status status = find_survivors(trainer, recovery, speaks, error);
    if (status == WEFT_OK)
        status = agree_on_step(trainer, recovery, speaks, error);
    report->agree_seconds += end_phase(recovery);
    if (status == WEFT_OK)
        status = choose_mesh(trainer, report->reason, speaks, error);
    if (status != WEFT_OK)
        return status;
    executor_keep_state(trainer->former.executor);
    status = trainer_world_open(trainer, speaks, error);
    report->rebuild_seconds += end_phase(recovery);
    if (status == WEFT_OK)
        status = trainer_agree(trainer, take_over_checkpoints(trainer, error), speaks, error);
    if (status == WEFT_OK)
        status = restore(trainer, recovery, speaks, error);
    if (status == WEFT_OK && trainer->report.run.peak > 0)
        status = trainer_measure_peak(trainer, &trainer->report.run.peak, error);
    if (status == WEFT_OK)
        status = trainer_world_open_copies(trainer, speaks, error);
    if (status == WEFT_OK)
        status = finish_copies(trainer, speaks, error);
    if (status == WEFT_OK)
        status = trainer_world_open_writer(trainer, speaks, error);
    report->restore_seconds += end_phase(recovery);
    return status;
}

weft_status recovery_run(struct trainer *trainer, bool *speaks, struct error *error)
{
    char plan[PARALLEL_CHOICE_TEXT_BYTES];
    struct recovery recovery = {.mark = clock_now(), .report = {.ranks_before = trainer->world.ranks}};
    weft_status status;
    do {
        snprintf(recovery.report.reason, sizeof recovery.report.reason, "%s", error->text);
        error_clear(error);
        trainer->agreed = false;
        status = recover(trainer, &recovery, speaks, error);
    } while (status != WEFT_OK && !recovery.is_over && recovery_is_possible(trainer, status));
    if (status != WEFT_OK)
        return status;
    trainer_world_close(&trainer->former);
    take_over_report(trainer, &recovery);
    if (recovery.must_report_step && recovery.report.source == REPORT_FROM_MEMORY &&
        trainer->state.step > trainer->course.begin)
        trainer_report_step(trainer);
    recovery.report.ranks = trainer->world.ranks;
    recovery.report.plan = parallel_choice_describe(&trainer->world.parallel, plan);
    report_recovery(&trainer->report, &recovery.report);
    return WEFT_OK;
}
