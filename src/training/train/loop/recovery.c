/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/recovery.h"

#include "base/clock.h"
#include "base/library_error.h"
#include "training/train/loop/internal/begin.h"
#include "training/train/loop/internal/newcomers.h"
#include "training/train/loop/internal/recovery_parts.h"
#include "training/train/loop/internal/spares.h"

#include <stdio.h>
#include <unistd.h>

#define WAIT_SECONDS  60.0 /* for replacements, when there is no mesh for the ranks that are left */
#define ROUND_SECONDS 1.0  /* after which rank 0 tells the others to keep waiting */

bool recovery_is_possible(const struct trainer *trainer, weft_status status)
{
    return trainer->config.min_ranks && (status == WEFT_ERROR_PEER || status == WEFT_ERROR_TIMEOUT ||
                                         status == WEFT_ERROR_ABORTED || status == WEFT_ERROR_NETWORK);
}

/* ---- the ranks ---- */

/* The state stays where it is until the next world has it. */
static void leave_world(struct trainer *trainer)
{
    struct trainer_world *world = &trainer->world;
    trainer->state.layout = NULL;
    if (!world->is_whole) { /* it was still being opened */
        trainer_world_close(world);
        return;
    }
    trainer_world_close(&trainer->former);
    state_layout_close(world->layout);
    world->layout = NULL;
    world->step = trainer->state.step;
    trainer->former = *world;
}

static void stop_checkpoints(struct trainer *trainer)
{
    if (trainer->world.writer) {
        recovery_note_checkpoint(&trainer->course, checkpoint_writer_completed(trainer->world.writer));
        trainer->course.uncopied = checkpoint_writer_uncopied(trainer->world.writer);
    }
    checkpoint_writer_close(trainer->world.writer);
    trainer->world.writer = NULL;
}

/* `admits`: nothing has failed, and all ranks are between steps. */
static weft_status find_ranks(struct trainer *trainer, struct recovery *recovery, bool admits, bool *speaks,
                              struct error *error)
{
    stop_checkpoints(trainer);
    const weft_status status =
        library_error(trainer->context, admits ? weft_grow(trainer->context) : weft_shrink(trainer->context), error);
    if (admits && recovery_is_possible(trainer, status)) /* a rank was lost before the call */
        return status;
    *speaks = recovery->is_over = status != WEFT_OK; /* the others do not hear of it */
    if (status != WEFT_OK)
        return status;
    leave_world(trainer);
    if (!weft_world(trainer->context)) {
        *speaks = false;
        trainer->world = (struct trainer_world){0}; /* trainer->former has it */
        trainer->has_left = trainer->agreed = recovery->is_over = true;
        return error_set(error, WEFT_ERROR_STATE, "this rank was released from the job");
    }
    trainer_world_enter(trainer, weft_world(trainer->context));
    recovery->is_in_world = true;
    return WEFT_OK;
}

static weft_status check_number(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    const uint32_t least = trainer->config.min_ranks;
    if (world->job_ranks >= least)
        return WEFT_OK;
    recovery->is_over = trainer->agreed = true;
    *speaks = world->rank == 0;
    return error_set(error, WEFT_ERROR_PEER, "%u of %u ranks are left, fewer than --min-ranks %u: %s", world->job_ranks,
                     recovery->report.ranks_before, least, recovery->report.reason);
}

/* ---- the mesh ---- */

/* The pipeline's ranks of attempt `number`: as before, then fewer, then more, up to `most`. 0: that was all. */
static uint32_t pipeline_of(uint32_t before, uint32_t most, uint32_t number)
{
    if (before > most)
        return number < most ? most - number : 0;
    return number < before ? before - number : number < most ? number + 1 : 0;
}

/* One mesh, for the ranks of the world. */
static weft_status try_new_mesh(struct trainer *trainer, const struct mesh *mesh, bool *speaks, struct error *error)
{
    error_clear(error);
    trainer->config.mesh = mesh_print(mesh, trainer->mesh);
    return trainer_world_settle(trainer, speaks, error);
}

/* The first mesh that the world's ranks can have and that fits into their memory. Not for spares. */
static weft_status choose_new_mesh(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct mesh *first = &trainer->first_mesh;
    const uint32_t tensor = first->extent[MESH_TENSOR], ranks = trainer->world.ranks, places = ranks / tensor;
    weft_status status =
        error_set(error, WEFT_ERROR_ARGUMENT, "the tensor axis needs a multiple of %u ranks, and %u %s left", tensor,
                  ranks, ranks == 1 ? "is" : "are");
    uint32_t pipeline;
    for (uint32_t i = 0; (status == WEFT_ERROR_ARGUMENT || status == WEFT_ERROR_MEMORY) && ranks % tensor == 0 &&
                         (pipeline = pipeline_of(first->extent[MESH_PIPELINE], places, i)) > 0;
         i++) {
        const struct mesh mesh = {
            .extent = {[MESH_DATA] = places / pipeline, [MESH_PIPELINE] = pipeline, [MESH_TENSOR] = tensor}};
        if (places % pipeline == 0)
            status = try_new_mesh(trainer, &mesh, speaks, error);
    }
    return status;
}

weft_status recovery_choose_ranks(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    const char *reason = recovery->report.reason;
    struct error first = {0};
    weft_status status = WEFT_ERROR_ARGUMENT;
    for (uint32_t ranks = trainer->world.job_ranks;
         ranks > 0 && (status == WEFT_ERROR_ARGUMENT || status == WEFT_ERROR_MEMORY); ranks--) {
        error_clear(error);
        status = trainer_world_divide(trainer, ranks, error);
        if (status == WEFT_OK && !trainer_world_is_spare(&trainer->world))
            status = choose_new_mesh(trainer, speaks, error);
        if (status != WEFT_OK && recovery_is_possible(trainer, status))
            return status;
        status = trainer_agree_in_job(trainer, status, speaks, error);
        first = first.status == WEFT_OK ? *error : first;
    }
    recovery->lacks_mesh = status != WEFT_OK;
    if (status == WEFT_OK)
        return WEFT_OK;
    *speaks = trainer->world.rank == 0;
    error_clear(error);
    return error_set(error, first.status, "%s%s%s", first.text, *reason ? ": " : "", reason);
}

/* ---- what rank 0 does ---- */

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
    const struct goodput goodput = trainer->report.goodput;
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
    trainer->report.goodput = goodput;
}

/* ---- all of it ---- */

/* Seconds of the phase that ends here. */
static double end_phase(struct recovery *recovery)
{
    const uint64_t now = clock_now(), began = recovery->mark;
    recovery->mark = now;
    return (double)(now - began) * 1e-9;
}

weft_status recovery_open_world(struct trainer *trainer, bool *speaks, struct error *error)
{
    weft_status status = WEFT_OK;
    if (!trainer_world_is_spare(&trainer->world)) {
        status = trainer_world_open(trainer, speaks, error);
        if (status == WEFT_OK)
            status = trainer_open_checkpoints(trainer, error);
    }
    return trainer_agree_in_job(trainer, status, speaks, error);
}

/* Of the former copies only those stay until then from which another recovery could begin. */
static weft_status open_other_parts(struct trainer *trainer, const struct recovery *recovery, bool *speaks,
                                    struct error *error)
{
    struct trainer_world *world = &trainer->world;
    weft_status status = WEFT_OK;
    if (trainer_world_is_spare(world))
        return WEFT_OK;
    if (trainer->report.run.peak > 0)
        status = trainer_measure_peak(trainer, &trainer->report.run.peak, error);
    if (trainer->former.copies)
        state_copies_keep(trainer->former.copies, recovery->copy);
    if (status == WEFT_OK)
        status = trainer_world_open_copies(trainer, speaks, error);
    if (status == WEFT_OK && world->copies)
        status = state_copies_finish(world->copies, error);
    return status == WEFT_OK ? trainer_world_open_writer(trainer, speaks, error) : status;
}

/* The former world is needed until all ranks have the new one, with copies of it. */
static weft_status finish(struct trainer *trainer, const struct recovery *recovery, bool *speaks, struct error *error)
{
    const weft_status status = open_other_parts(trainer, recovery, speaks, error);
    trainer->world.is_whole = status == WEFT_OK;
    trainer->is_new &= status != WEFT_OK;
    return trainer_agree_in_job(trainer, status, speaks, error);
}

static weft_status recover(struct trainer *trainer, struct recovery *recovery, bool admits, bool *speaks,
                           struct error *error)
{
    struct report_recovery *report = &recovery->report;
    weft_status status = WEFT_OK;
    if (!recovery->is_in_world)
        status = find_ranks(trainer, recovery, admits, speaks, error);
    if (status != WEFT_OK)
        return status;
    recovery->is_in_world = recovery->lacks_mesh = false; /* if it fails */
    status = check_number(trainer, recovery, speaks, error);
    if (status == WEFT_OK)
        status = newcomers_welcome(trainer, recovery, speaks, error);
    if (status == WEFT_OK && recovery->begins)
        return trainer_begin(trainer, recovery, speaks, error);
    if (status == WEFT_OK)
        status = recovery_agree_on_step(trainer, recovery, speaks, error);
    report->agree_seconds += end_phase(recovery);
    if (status == WEFT_OK)
        status = recovery_choose_ranks(trainer, recovery, speaks, error);
    if (status != WEFT_OK)
        return status;
    if (trainer->former.executor)
        executor_keep_state(trainer->former.executor);
    status = recovery_open_world(trainer, speaks, error);
    report->rebuild_seconds += end_phase(recovery);
    if (status == WEFT_OK)
        status = recovery_restore(trainer, recovery, speaks, error);
    if (status == WEFT_OK)
        status = finish(trainer, recovery, speaks, error);
    report->restore_seconds += end_phase(recovery);
    return status;
}

/* There is no mesh for the ranks, but others may come: wait until some are there. The state stays where it is. *come: they
 * are. Collective over the job. */
static weft_status wait_for_newcomers(struct trainer *trainer, bool *come, struct error *error)
{
    enum { NOBODY, SOMEBODY, TOO_LATE };
    const uint64_t deadline = clock_after(WAIT_SECONDS);
    uint32_t seen = NOBODY;
    weft_status status = WEFT_OK;
    if (trainer->out) {
        fprintf(trainer->out, "wait   for other ranks, %.0f s at most: %s\n", WAIT_SECONDS, error->text);
        fflush(trainer->out);
    }
    while (status == WEFT_OK && seen == NOBODY) {
        const uint64_t round = clock_after(ROUND_SECONDS);
        while (trainer->world.rank == 0 && !weft_waiting(trainer->context) && clock_now() < round)
            usleep(10000);
        seen = weft_waiting(trainer->context) ? SOMEBODY : clock_now() < deadline ? NOBODY : TOO_LATE;
        status = weft_broadcast(&seen, 1, WEFT_U32, 0, trainer->world.job);
    }
    *come = seen == SOMEBODY;
    if (status != WEFT_OK || *come)
        error_clear(error);
    return library_error(trainer->context, status, error);
}

/* Recover, again if further ranks are lost meanwhile, or if newcomers may allow a mesh. */
static weft_status recover_at_last(struct trainer *trainer, struct recovery *recovery, bool *speaks,
                                   struct error *error)
{
    weft_status status;
    bool come;
    do {
        const bool admits = error->status == WEFT_OK;
        if (!admits)
            snprintf(recovery->report.reason, sizeof recovery->report.reason, "%s", error->text);
        error_clear(error);
        trainer->agreed = come = false;
        status = recover(trainer, recovery, admits, speaks, error);
        const bool lacks_ranks = status == WEFT_ERROR_ARGUMENT || status == WEFT_ERROR_MEMORY;
        if (lacks_ranks && trainer->config.restarts && recovery->lacks_mesh)
            status = wait_for_newcomers(trainer, &come, error);
    } while (come || (status != WEFT_OK && !recovery->is_over && recovery_is_possible(trainer, status)));
    if (status != WEFT_OK || error->status != WEFT_OK)
        return error->status;
    trainer_world_close(&trainer->former);
    trainer->course.joining = false;
    return WEFT_OK;
}

weft_status recovery_run(struct trainer *trainer, bool *speaks, struct error *error)
{
    char plan[PARALLEL_CHOICE_TEXT_BYTES];
    struct recovery recovery = {.mark = clock_now(), .report = {.ranks_before = trainer->world.job_ranks}};
    const struct trainer_world *world = &trainer->world;
    weft_status status = WEFT_OK;
    if (error->status == WEFT_OK)
        status = spares_tell(trainer, SPARE_REGROUPS, error);
    if (status == WEFT_OK || recovery_is_possible(trainer, status))
        status = recover_at_last(trainer, &recovery, speaks, error);
    if (status != WEFT_OK || trainer_world_is_spare(world))
        return status;
    take_over_report(trainer, &recovery);
    if (recovery.must_report_step && recovery.report.source == REPORT_FROM_MEMORY &&
        trainer->state.step > trainer->course.begin) {
        const struct executor_seconds *took = &trainer->course.last.seconds; /* without the time since */
        trainer->course.step_began =
            clock_now() - (uint64_t)((took->wait + took->pass - took->tensor_wait + took->optimizer) * 1e9);
        const struct goodput goodput = trainer->report.goodput;
        trainer_report_step(trainer);
        if (trainer->state.step <= goodput.newest) /* it has counted */
            trainer->report.goodput = goodput;
    }
    recovery.report.ranks = world->job_ranks;
    recovery.report.spares = world->job_ranks - world->ranks;
    recovery.report.plan = parallel_choice_describe(&world->parallel, plan);
    report_recovery(&trainer->report, &recovery.report);
    return WEFT_OK;
}

weft_status recovery_join(struct trainer *trainer, bool *begun, bool *speaks, struct error *error)
{
    const uint32_t ranks = trainer->world.job_ranks;
    struct recovery recovery = {
        .mark = clock_now(), .is_in_world = error->status == WEFT_OK, .report = {.ranks_before = ranks}};
    const weft_status status = recover_at_last(trainer, &recovery, speaks, error);
    *begun = recovery.begins;
    return status;
}
