/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: what runs need to begin, what is set aside, held, charged, used up. */
#include "platform/controller/internal/state.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ACCRUAL_PERIOD 3600000 /* milliseconds: of projects for whose budget nobody waits */

/* `milliseconds` of all slots of a run, at least 1 and at most what the ledger takes. */
static int64_t cost_of(const struct controlled_run *run, int64_t milliseconds)
{
    int64_t size = controlled_size(run);
    if (milliseconds < 1)
        milliseconds = 1;
    return milliseconds > LEDGER_MOST / size ? LEDGER_MOST : milliseconds * size;
}

static int64_t wanted_by(const struct controlled_run *run)
{
    return cost_of(run, run->time_limit);
}

/* What a run needs to begin. One without checkpoints would lose what it did when its hold is used up. */
static int64_t least_for(const struct controller *controller, const struct controlled_run *run)
{
    int64_t least = controller->config.budget_least;
    bool some = run->preemptible && least && least < run->time_limit;
    return cost_of(run, some ? least : run->time_limit);
}

/* ---- what is set aside ---- */

void budget_begin(struct controller *controller)
{
    for (uint32_t i = 0; i < controller->project_count; i++) {
        struct controlled_project *project = &controller->projects[i];
        project->pool_due = project->waiting = 0;
    }
    for (uint32_t i = 0; i < controller->funds_count; i++)
        controller->funds[i].member_due = 0;
    controller->accrues_at = INT64_MAX;
}

void budget_set_aside(struct controller *controller, const struct controlled_run *run)
{
    controller->funds[run->funds].member_due += run->member_due;
    controller->projects[run->project].pool_due += run->pool_due;
}

/* The balances of a project have changed. */
static void forget_balances(struct controller *controller, uint32_t project)
{
    for (uint32_t i = 0; i < controller->funds_count; i++)
        if (controller->funds[i].project == project)
            controller->funds[i].fresh = false;
    controller->plan_stale = true;
}

static weft_status controller_budget_look_at(struct controller *controller, const struct controlled_run *run,
                                             struct controlled_funds **funds, struct error *error)
{
    *funds = &controller->funds[run->funds];
    if ((*funds)->fresh)
        return WEFT_OK;
    weft_status status = ledger_funds_get(controller->config.registry, controller->projects[run->project].name,
                                          controller->owners[run->owner].name, &(*funds)->ledger, error);
    (*funds)->fresh = status == WEFT_OK;
    return status;
}

/* What of both accounts is set aside for nobody, once what has accrued until `now` is posted; 0: as it is posted. */
static void left_of(const struct controller *controller, const struct controlled_funds *funds, int64_t now,
                    int64_t *member, int64_t *pool)
{
    const struct ledger_funds *ledger = &funds->ledger;
    const int64_t whole = now ? ledger_funds_pool(ledger, now) : ledger->pool;
    *member = ledger->member - funds->member_due;
    *pool = ledger->draws ? whole - controller->projects[funds->project].pool_due : 0;
}

/* Post what has accrued in the project of a run until now, if that was not done. */
static weft_status post_accrual(struct controller *controller, const struct controlled_run *run, int64_t now,
                                struct error *error)
{
    struct controlled_project *project = &controller->projects[run->project];
    int64_t added;
    if (project->accrued == now)
        return WEFT_OK;
    project->accrued = now;
    forget_balances(controller, run->project);
    return ledger_accrue(controller->config.registry, project->name, now, &added, error);
}

/* Which account pays for a run, as the ledger chooses: one that can pay for all of it, the owner's first; else the one
 * that has more. False if that is not enough to begin with. */
static bool choose_account(const struct controller *controller, const struct controlled_run *run,
                           const struct controlled_funds *funds, int64_t now, bool *by_member)
{
    int64_t wanted = wanted_by(run), member, pool;
    left_of(controller, funds, now, &member, &pool);
    *by_member = member >= wanted || (pool < wanted && member >= pool);
    return (*by_member ? member : pool) >= least_for(controller, run);
}

/* Look again when it suffices. */
static void await_accrual(struct controller *controller, const struct controlled_run *run)
{
    const int64_t when = budget_expect(controller, run);
    if (when && when < controller->accrues_at)
        controller->accrues_at = when;
}

weft_status budget_judge(struct controller *controller, struct controlled_run *run, int64_t now,
                         enum controller_wait *waits, struct error *error)
{
    struct controlled_project *project = &controller->projects[run->project];
    struct controlled_funds *funds;
    bool by_member;
    weft_status status = controller_budget_look_at(controller, run, &funds, error);
    if (status != WEFT_OK || !funds->ledger.limited)
        return status;
    bool enough = choose_account(controller, run, funds, 0, &by_member);
    /* It is posted when it suffices, for every posting stays in the ledger. */
    if (!enough && choose_account(controller, run, funds, now, &by_member)) {
        status = post_accrual(controller, run, now, error);
        if (status != WEFT_OK || (status = controller_budget_look_at(controller, run, &funds, error)) != WEFT_OK)
            return status;
        enough = choose_account(controller, run, funds, 0, &by_member);
    }
    if (!enough) {
        *waits = CONTROLLER_WAITS_FOR_BUDGET;
        project->waiting++;
        await_accrual(controller, run);
    } else if (by_member) {
        run->member_due = least_for(controller, run);
    } else {
        run->pool_due = least_for(controller, run);
    }
    budget_set_aside(controller, run);
    return WEFT_OK;
}

/* ---- an attempt ---- */

/* The largest amount that one account can give for a run. */
static int64_t most_for(const struct controller *controller, const struct controlled_run *run,
                        const struct controlled_funds *funds)
{
    int64_t member, pool;
    left_of(controller, funds, 0, &member, &pool);
    member += run->member_due;
    pool += run->pool_due;
    return member > pool ? member : pool;
}

weft_status budget_look(struct controller *controller, struct controlled_run *run, int64_t now, int64_t *wanted,
                        bool *enough, struct error *error)
{
    struct controlled_funds *funds;
    *wanted = wanted_by(run);
    *enough = true;
    if (run->personal)
        return WEFT_OK;
    weft_status status = controller_budget_look_at(controller, run, &funds, error);
    if (status != WEFT_OK || !funds->ledger.limited)
        return status;
    int64_t most = most_for(controller, run, funds);
    /* Where there is enough, the hour's posting will do: else every start would post next to nothing. */
    if (most < *wanted) {
        status = post_accrual(controller, run, now, error);
        if (status != WEFT_OK || (status = controller_budget_look_at(controller, run, &funds, error)) != WEFT_OK)
            return status;
        most = most_for(controller, run, funds);
    }
    *enough = most >= least_for(controller, run);
    if (most < *wanted)
        *wanted = most;
    return WEFT_OK;
}

weft_status budget_hold(struct controller *controller, struct controlled_run *run, int64_t wanted, int64_t now,
                        struct error *error)
{
    weft_status status = ledger_hold(controller->config.registry, run->run, run->epoch, wanted,
                                     least_for(controller, run), run->personal, now, &run->held, error);
    run->short_hold = run->held < wanted_by(run);
    controller->funds[run->funds].member_due -= run->member_due;
    controller->projects[run->project].pool_due -= run->pool_due;
    run->member_due = run->pool_due = 0;
    forget_balances(controller, run->project);
    return status;
}

weft_status budget_settle(struct controller *controller, const struct controlled_run *run,
                          const struct registry_outcome *outcome, int64_t now, struct error *error)
{
    if (!outcome->attempt_ended)
        return WEFT_OK;
    bool platform = run_cause_blame(outcome->cause) == RUN_BLAME_PLATFORM;
    int64_t charged;
    forget_balances(controller, run->project);
    return ledger_settle(controller->config.registry, run->run, run->epoch, platform ? 0 : outcome->used,
                         platform ? "the platform failed it: nothing is charged" : "", now, &charged, error);
}

void budget_started(struct controller *controller, const struct controlled_run *run)
{
    if (run->short_hold)
        controller->exhausts_at = 0; /* look */
}

weft_status budget_take_up(struct controller *controller, struct controlled_run *run, struct error *error)
{
    struct ledger_hold *list;
    size_t count;
    weft_status status = ledger_holds_of(controller->config.registry, run->run, &list, &count, error);
    if (status != WEFT_OK)
        return status;
    /* An attempt of before there were budgets holds nothing. */
    if (count && list[count - 1].epoch == run->epoch) {
        run->held = list[count - 1].amount;
        run->short_hold = run->held < wanted_by(run);
    }
    free(list);
    return WEFT_OK;
}

/* ---- as time passes ---- */

weft_status budget_accrue(struct controller *controller, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    char(*names)[PLATFORM_NAME_BYTES] = NULL;
    size_t count = 0;
    int64_t added;
    weft_status status = WEFT_OK;
    if (now - controller->accrued_at < BUDGET_PERIOD && now < controller->accrues_at)
        return WEFT_OK;
    controller->accrued_at = now;
    controller->accrues_at = INT64_MAX; /* until the pass that follows */
    for (uint32_t i = 0; i < controller->project_count && status == WEFT_OK; i++) {
        struct controlled_project *project = &controller->projects[i];
        if (project->waiting)
            status = ledger_accrue(registry, project->name, now, &added, error);
    }
    if (status == WEFT_OK && now - controller->accrued_all_at >= ACCRUAL_PERIOD) {
        controller->accrued_all_at = now;
        status = ledger_projects(registry, &names, &count, error);
        for (size_t i = 0; i < count && status == WEFT_OK; i++)
            status = ledger_accrue(registry, names[i], now, &added, error);
        free(names);
    }
    controller_budgets_changed(controller);
    return status;
}

void controller_budgets_changed(struct controller *controller)
{
    for (uint32_t i = 0; i < controller->funds_count; i++)
        controller->funds[i].fresh = false;
    controller->plan_stale = true;
    if (controller->parked)
        controlled_change(controller);
}

weft_status budget_end_exhausted(struct controller *controller, int64_t now, struct error *error)
{
    struct ledger_hold *list;
    size_t count;
    if (now < controller->exhausts_at)
        return WEFT_OK;
    weft_status status =
        ledger_exhausted(controller->config.registry, now, &list, &count, &controller->exhausts_at, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        struct controlled_run *run = runs_find(controller, list[i].run);
        if (run && run->node && run->short_hold)
            status = attempt_ask(controller, run, RUN_CAUSE_BUDGET_END, "", "", now, error);
    }
    free(list);
    return status;
}

/* ---- why ---- */

#define MINUTES(amount) ((double)(amount) / (double)LEDGER_SLOT_MINUTE)

int64_t budget_expect(const struct controller *controller, const struct controlled_run *run)
{
    const struct controlled_funds *funds = &controller->funds[run->funds];
    int64_t least = least_for(controller, run), member, pool;
    left_of(controller, funds, 0, &member, &pool);
    return funds->ledger.draws && least <= funds->ledger.most ? ledger_funds_when(&funds->ledger, least - pool) : 0;
}

/* When what is lacking comes. */
static void say_when(const struct ledger_funds *ledger, int64_t lacking, int64_t now, char *text, size_t size)
{
    char duration[32];
    const int64_t when = ledger_funds_when(ledger, lacking);
    if (when)
        snprintf(text, size, "what is lacking accrues in %s",
                 text_seconds(controlled_seconds(when > now ? when - now : 0), duration, sizeof duration));
    else if (ledger->rate > 0 && lacking > ledger->room)
        snprintf(text, size, "more accrues, up to the cap, when runs under way have ended");
    else
        snprintf(text, size, "nothing accrues: an administrator can grant more");
}

char *budget_say(const struct controller *controller, const struct controlled_run *run, int64_t now, char *text,
                 size_t size)
{
    const struct controlled_funds *funds = &controller->funds[run->funds];
    const struct ledger_funds *ledger = &funds->ledger;
    const char *project = controller->projects[run->project].name, *owner = controller->owners[run->owner].name;
    int64_t least = least_for(controller, run), member, pool;
    left_of(controller, funds, 0, &member, &pool);
    char when[96], set_aside[96] = "";
    if (!ledger->draws) {
        snprintf(
            text, size,
            "waits for budget: '%s' has %.1f slot-minutes in project '%s', and it needs %.1f to begin; a manager of "
            "the project can hand on more",
            owner, MINUTES(member), project, MINUTES(least));
        return text;
    }
    if (least > ledger->most && least > ledger->member) {
        snprintf(text, size,
                 "cannot start on the budget of project '%s': it needs %.1f slot-minutes to begin, and there are never "
                 "more than %.1f; ask for fewer slots or less time%s, or ask an administrator for more",
                 project, MINUTES(least), MINUTES(ledger->most), run->preemptible ? "" : ", or let it be preemptible");
        return text;
    }
    say_when(ledger, least - pool, now, when, sizeof when);
    if (ledger->pool > pool)
        snprintf(set_aside, sizeof set_aside, ", and %.1f of them are set aside for runs before it",
                 MINUTES(ledger->pool - pool));
    snprintf(text, size, "waits for budget: project '%s' has %.1f slot-minutes%s, and it needs %.1f to begin; %s",
             project, MINUTES(ledger_funds_pool(ledger, now)), set_aside, MINUTES(least), when);
    return text;
}
