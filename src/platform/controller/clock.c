/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock is set, by hand, by a time server, or because the machine slept. A step that the caller reports shifts
 * all times that are kept (controller_shift_clock()). After a step back that nobody reported, nothing is due later than
 * it would have been (controlled_clock()).
 */
#include "platform/controller/internal/state.h"

#define STEP_NOTICED 60000 /* milliseconds: a step of the clock is noticed within so long */

/* The clock was set back: timers set before are due now, and timeouts start over. Otherwise all of them would fire
 * later by the size of the step. */
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

/* A time from before the clock was set, if there is one. */
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

int64_t controlled_told(const struct controller *controller, int64_t told)
{
    const int64_t by = controller->clock_step, least = by > STEP_NOTICED ? by : STEP_NOTICED;
    return by > 0 && told < controller->clock_stepped_at - least ? told + by : told;
}

static weft_status shift_registry(struct database *registry, int64_t by, struct error *error)
{
    const weft_status status = registry_runs_shift(registry, by, error);
    return status == WEFT_OK ? ledger_shift(registry, by, error) : status;
}

weft_status controller_shift_clock(struct controller *controller, int64_t by, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status == WEFT_OK)
        status = database_end(registry, shift_registry(registry, by, error), error);
    if (status != WEFT_OK)
        return status;
    controller->clock_step = by;
    controller->clock_stepped_at = now;
    shift(&controller->accrued_at, by);
    shift(&controller->accrued_all_at, by);
    if (controller->accrues_at != INT64_MAX)
        shift(&controller->accrues_at, by);
    controller_budgets_changed(controller);
    scheduler_set_clock(controller->scheduler, controlled_seconds(by));
    for (uint32_t i = 0; i < controller->run_count; i++)
        shift_run(controller->runs[i], by);
    shift(&controller->pause_ends, by);
    controller->exhausts_at = 0; /* look */
    controller->plan_stale = true;
    controller->stepped_at = now;
    return WEFT_OK;
}
