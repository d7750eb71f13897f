/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock that the controller is told the time by is set, by hand, by a time server, or by a machine that slept.
 * Back: nothing is to come later for it. Forward: nobody has run, waited or paid for the time that did not pass.
 */
#include "platform/controller_state.h"

/* What was due at a moment of before is due now, and what is waited for is waited for from now on: otherwise all of it
 * would come later by as much. */
static void set_back(struct controller *controller, int64_t now)
{
    scheduler_set_clock(controller->scheduler, controlled_seconds(now - controller->stepped_at));
    controller->plan_stale = true;
    controller->planned_at = 0;
    controller->round_at = controller->passed_at = controller->exhausts_at = 0;
    controller->accrued_at = controller->accrued_all_at = controller->accrues_at = 0;
    for (uint32_t i = 0; i < controller->run_count; i++) {
        struct controlled_run *run = controller->runs[i];
        run->start_due = run->stop_due = 0;
        run->stop_told = run->stop_told ? now : 0;
        run->start_failed = run->start_failed ? now : 0;
        pause_set_back(run, now);
        run_progress_shift(&run->progress, now - controller->stepped_at);
        if (run->slice_end != INT64_MAX && run->slice_end > now + run->time_slice)
            run->slice_end = now + run->time_slice;
        for (uint32_t node = 0; run->node && node < run->nodes; node++) {
            run->node[node].noted_at = run->node[node].heard_at = 0;
            run->node[node].missed = run->node[node].missed ? now : 0;
        }
    }
}

void controlled_clock(struct controller *controller, int64_t now)
{
    if (now < controller->stepped_at)
        set_back(controller, now);
    controller->stepped_at = now;
}

/* A moment of before the clock was set, if there is one. */
static void shift(int64_t *moment, int64_t by)
{
    if (*moment)
        *moment += by;
}

static void shift_run(struct controlled_run *run, int64_t by)
{
    int64_t *const moments[] = {&run->since,        &run->start_due, &run->stop_due, &run->stop_told,
                                &run->start_failed, &run->pause_end, &run->had_turn};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        shift(moments[i], by);
    if (run->slice_end != INT64_MAX)
        run->slice_end += by;
    run_progress_shift(&run->progress, by);
    for (uint32_t node = 0; run->node && node < run->nodes; node++) {
        shift(&run->node[node].noted_at, by);
        shift(&run->node[node].missed, by);
        shift(&run->node[node].heard_at, by);
    }
}

weft_status controller_set_forward(struct controller *controller, int64_t by, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status == WEFT_OK)
        status = database_end(registry, registry_runs_set_forward(registry, by, error), error);
    if (status != WEFT_OK)
        return status;
    scheduler_set_clock(controller->scheduler, controlled_seconds(by));
    for (uint32_t i = 0; i < controller->run_count; i++)
        shift_run(controller->runs[i], by);
    shift(&controller->pause_ends, by);
    controller->exhausts_at = 0; /* look */
    controller->plan_stale = true;
    controller->stepped_at = now;
    return WEFT_OK;
}
