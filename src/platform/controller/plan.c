/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/controller/internal/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct controller_plan_run entry_of(const struct controller *controller, const struct controlled_run *run)
{
    return (struct controller_plan_run){.run = run->run,
                                        .project = controller->projects[run->project].name,
                                        .owner = controller->owners[run->owner].name,
                                        .nodes = run->nodes,
                                        .slots = run->slots,
                                        .since = run->since,
                                        .waits = run->waits};
}

static int64_t controller_plan_milliseconds(double seconds)
{
    return (int64_t)(seconds * 1000);
}

/* Add a run that waits, once. */
static struct controller_plan_run *add_waiting(struct controller *controller, struct controller_plan *plan,
                                               struct controlled_run *run)
{
    run->planned = controller->plan_number;
    plan->waiting[plan->waiting_count] = entry_of(controller, run);
    return &plan->waiting[plan->waiting_count++];
}

/* Those in the scheduler's queue, by what it expects. */
static weft_status add_queue(struct controller *controller, int64_t now, struct controller_plan *plan,
                             struct error *error)
{
    uint32_t queued = scheduler_queued(controller->scheduler);
    struct outlook *outlooks = malloc((queued + 1) * sizeof *outlooks);
    if (!outlooks)
        return error_memory(error, (queued + 1) * sizeof *outlooks, "the plan of the queue");
    weft_status status = outlook_all(controller->scheduler, controlled_seconds(now), outlooks, error);
    for (uint32_t i = 0; i < queued && status == WEFT_OK; i++) {
        struct controlled_run *run = controller->by_name[outlooks[i].run];
        if (run->node) /* its last attempt has not ended yet */
            continue;
        struct controller_plan_run *entry = add_waiting(controller, plan, run);
        entry->outlook = outlooks[i];
        entry->expected_start =
            isinf(outlooks[i].expected_start) ? 0 : controller_plan_milliseconds(outlooks[i].expected_start);
        if (outlooks[i].awaits != OUTLOOK_NOBODY)
            entry->awaits = controller->by_name[outlooks[i].awaits]->run;
    }
    free(outlooks);
    return status;
}

/* The queue as it was, where the scheduler has not looked at the present one yet: without those who have left it. */
static void add_old_queue(struct controller *controller, const struct controller_plan *old,
                          struct controller_plan *plan)
{
    for (size_t i = 0; i < old->waiting_count; i++) {
        const struct controller_plan_run *was = &old->waiting[i];
        struct controlled_run *run = runs_find(controller, was->run);
        if (!run || run->node || run->promised || run->waits != CONTROLLER_WAITS_FOR_SLOTS ||
            was->waits != CONTROLLER_WAITS_FOR_SLOTS)
            continue;
        struct controller_plan_run *entry = add_waiting(controller, plan, run);
        entry->outlook = was->outlook;
        entry->expected_start = was->expected_start;
        entry->awaits = was->awaits;
    }
}

/* Those that nobody has added: they have come since the last pass, or wait for other things than slots. */
static void add_others(struct controller *controller, int64_t now, bool parked, struct controller_plan *plan)
{
    for (uint32_t i = 0; i < controller->run_count; i++) {
        struct controlled_run *run = controller->runs[i];
        if (run->node || run->planned == controller->plan_number ||
            (run->waits != CONTROLLER_WAITS_FOR_SLOTS) != parked)
            continue;
        struct controller_plan_run *entry = add_waiting(controller, plan, run);
        if (run->waits == CONTROLLER_WAITS_FOR_SLOTS)
            entry->waits = CONTROLLER_WAITS_FOR_PASS;
        else if (run->waits == CONTROLLER_WAITS_FOR_BUDGET)
            entry->expected_start = budget_expect(controller, run);
    }
}

static int by_return(const void *a, const void *b)
{
    const struct outlook_return *left = a, *right = b;
    if (left->when != right->when)
        return left->when < right->when ? -1 : 1;
    return left->run < right->run ? -1 : left->run > right->run;
}

/* Those that failed and are not tried again yet, in the order in which they are; none is sooner than its pause ends. */
static weft_status add_pausing(struct controller *controller, int64_t now, struct controller_plan *plan,
                               struct error *error)
{
    size_t bytes = (controller->run_count + 1) * sizeof(struct outlook_return), count = 0;
    struct outlook_return *returns = malloc(bytes);
    if (!returns)
        return error_memory(error, bytes, "the plan of the queue");
    for (uint32_t i = 0; i < controller->run_count; i++) {
        const struct controlled_run *run = controller->runs[i];
        const double back = controlled_seconds(run->pause_end);
        if (!run->node && controlled_waits(run) && run->waits == CONTROLLER_WAITS_FOR_PAUSE)
            returns[count++] = (struct outlook_return){run->name, back, back};
    }
    qsort(returns, count, sizeof *returns, by_return);
    weft_status status = WEFT_OK;
    if (count && !controller->changed) /* otherwise the scheduler has not looked at the queue yet */
        status = outlook_returns(controller->scheduler, controlled_seconds(now), returns, count, error);
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        struct controlled_run *run = controller->by_name[returns[i].run];
        struct controller_plan_run *entry = add_waiting(controller, plan, run);
        const int64_t expected =
            isinf(returns[i].expected_start) ? 0 : controller_plan_milliseconds(returns[i].expected_start);
        entry->expected_start = expected && expected < run->pause_end ? run->pause_end : expected; /* rounded down */
    }
    free(returns);
    return status;
}

static void add_promised(struct controller *controller, int64_t now, struct controller_plan *plan)
{
    for (uint32_t i = 0; i < controller->run_count; i++) {
        struct controlled_run *run = controller->runs[i];
        if (run->node || !run->promised)
            continue;
        struct controller_plan_run *entry = add_waiting(controller, plan, run);
        entry->waits = CONTROLLER_WAITS_FOR_OTHERS;
        entry->expected_start = now + controller->config.grace;
    }
}

static void add_running(struct controller *controller, struct controller_plan *plan)
{
    for (uint32_t i = 0; i < controller->run_count; i++) {
        const struct controlled_run *run = controller->runs[i];
        if (!run->node)
            continue;
        struct controller_plan_run *entry = &plan->running[plan->running_count++];
        *entry = entry_of(controller, run);
        entry->ends_before = run->since + run->time_limit;
        int64_t paid = ledger_hold_end(run->held, controlled_held(run), run->since);
        if (run->short_hold && paid < entry->ends_before)
            entry->ends_before = paid;
    }
}

weft_status controller_plan(struct controller *controller, int64_t now, const struct controller_plan **plan,
                            struct error *error)
{
    *plan = &controller->plan;
    if (!controller->plan_stale && !progress_makes_plan_old(controller, now))
        return WEFT_OK;
    size_t bytes = (controller->run_count + 1) * sizeof(struct controller_plan_run);
    struct controller_plan made = {.waiting = malloc(bytes), .running = malloc(bytes)};
    weft_status status = WEFT_OK;
    if (!made.waiting || !made.running)
        status = error_memory(error, 2 * bytes, "the plan of the queue");
    controller->plan_number++;
    if (status == WEFT_OK) {
        add_promised(controller, now, &made);
        if (controller->changed)
            add_old_queue(controller, &controller->plan, &made);
        else
            status = add_queue(controller, now, &made, error);
        if (status == WEFT_OK)
            status = add_pausing(controller, now, &made, error);
    }
    if (status != WEFT_OK) {
        free(made.waiting);
        free(made.running);
        return status;
    }
    add_others(controller, now, false, &made);
    add_others(controller, now, true, &made);
    add_running(controller, &made);
    free(controller->plan.waiting);
    free(controller->plan.running);
    controller->plan = made;
    controller->plan_stale = false;
    progress_planned(controller, now);
    return WEFT_OK;
}

char *controller_plan_reason(const struct controller *controller, const struct controller_plan_run *waits, bool whole,
                             int64_t now, char *text, size_t size)
{
    const struct controlled_run *run = whole ? runs_find(controller, waits->run) : NULL;
    snprintf(text, size, "%s", whole ? "" : "waits: its owner or its project may have no more at the moment");
    switch (waits->waits) {
    case CONTROLLER_WAITS_FOR_SLOTS:
        outlook_say(&waits->outlook, controlled_seconds(now), text, size);
        progress_say_awaited(controller, waits, now, text, size);
        return text;
    case CONTROLLER_WAITS_FOR_PASS:
        snprintf(text, size, "the queue has just changed; the next pass, within a second, looks at it");
        return text;
    case CONTROLLER_WAITS_FOR_OTHERS:
        snprintf(text, size, "has its slots, and starts when those who had them have left");
        return text;
    case CONTROLLER_WAITS_FOR_BUDGET:
        return run ? budget_say(controller, run, now, text, size) : text;
    case CONTROLLER_WAITS_FOR_CLASS:
    case CONTROLLER_WAITS_FOR_PERSONAL:
        return run ? run_limits_say(controller, run, text, size) : text;
    case CONTROLLER_WAITS_FOR_PAUSE:
        run = runs_find(controller, waits->run);
        return run && run->failure ? pause_say(run, whole, now, text, size) : text;
    case CONTROLLER_WAITS_FOR_RESUME:
        snprintf(text, size, "%s", controller->config.paused ? controller->config.paused : "");
        return text;
    case CONTROLLER_WAITS_FOR_DISK:
        return disk_say(controller, text, size);
    case CONTROLLER_WAITS_FOR_HOSTS:
        return run ? hosts_say(controller, run, text, size) : text;
    }
    return text;
}

weft_status controller_why(struct controller *controller, int64_t number, int64_t now, char *text, size_t size,
                           struct error *error)
{
    const struct controlled_run *run = runs_find(controller, number);
    const struct controller_plan *plan;
    text[0] = '\0';
    if (!run || run->node)
        return WEFT_OK;
    weft_status status = controller_plan(controller, now, &plan, error);
    for (size_t i = 0; status == WEFT_OK && i < plan->waiting_count; i++)
        if (plan->waiting[i].run == number)
            controller_plan_reason(controller, &plan->waiting[i], true, now, text, size);
    return status;
}
