/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/controller/internal/state.h"

#include "base/clock.h"
#include "platform/registry/run/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_PERIOD 1000  /* milliseconds: the engine is asked at least so often while something runs */
#define PASS_PERIOD 30000 /* the scheduler, while something waits: ages and waits have grown */
#define IDLE_PERIOD 60000

/* What a step does at most, as nobody is answered meanwhile; the rest of it comes in steps that follow soon. */
#define TURNS_MOST  64                 /* runs that the engine is asked about though it tells nothing of them */
#define TURN_PERIOD 20                 /* milliseconds from one such step to the next */
#define ACTS_LEAST  4                  /* attempts that are started or told to end, however long that takes */
#define ACTS_TIME   UINT64_C(20000000) /* nanoseconds after which no further one is */

/* ---- opening ---- */

/* In the queue again, after it gave way. */
static weft_status requeue(struct controller *controller, int64_t run, int64_t now, struct error *error)
{
    struct registry_outcome outcome;
    return registry_run_change(controller->config.registry, run, REGISTRY_PRESENT, RUN_CAUSE_REQUEUED, "", "", now,
                               &outcome, error);
}

static weft_status take_up_all(struct controller *controller, int64_t now, struct error *error)
{
    struct registry_filter filter = {.states = REGISTRY_LIVE, .oldest_first = true, .most = REGISTRY_PAGE_MOST};
    bool more = true;
    weft_status status = WEFT_OK;
    while (more && status == WEFT_OK) {
        struct registry_run *list;
        size_t count;
        status = registry_run_list(controller->config.registry, &filter, &list, &count, &more, error);
        if (status != WEFT_OK)
            return status;
        for (size_t i = 0; i < count && status == WEFT_OK; i++) {
            filter.beyond = list[i].run;
            if (list[i].state == RUN_PREEMPTED) { /* the crash came between the two changes */
                status = database_begin(controller->config.registry, DATABASE_DURABLE, error);
                if (status == WEFT_OK)
                    status =
                        database_end(controller->config.registry, requeue(controller, list[i].run, now, error), error);
                if (status == WEFT_OK)
                    status = registry_run_get(controller->config.registry, list[i].run, &list[i], error);
            }
            if (status == WEFT_OK)
                status = runs_take_up(controller, &list[i], true, now, error);
        }
        free(list);
    }
    return status;
}

weft_status controller_open(const struct controller_config *config, int64_t now, struct controller **controller,
                            struct error *error)
{
    struct controller *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a controller");
    made->config = *config;
    made->config.policy.kept_share = config->personal_share;
    made->scheduler = scheduler_new(&made->config.policy, error);
    weft_status status = made->scheduler ? hosts_open(made, now, error) : WEFT_ERROR_MEMORY;
    if (status == WEFT_OK)
        status =
            run_directories_open(config->directories.runs, config->directories.snapshots, &made->directories, error);
    if (status == WEFT_OK)
        status = runs_learn(made, error);
    if (status == WEFT_OK)
        status = take_up_all(made, now, error);
    if (status != WEFT_OK) {
        controller_close(made);
        return status;
    }
    *controller = made;
    return WEFT_OK;
}

void controller_close(struct controller *controller)
{
    if (!controller)
        return;
    runs_free(controller);
    free(controller->hosts);
    free(controller->plan.waiting);
    free(controller->plan.running);
    scheduler_free(controller->scheduler);
    run_directories_close(controller->directories);
    free(controller);
}

/* ---- a step: hear ---- */

/* The attempt of a run has ended: the scheduler hears what that means. */
static weft_status controller_settle(struct controller *controller, struct controlled_run *run, int64_t now,
                                     struct error *error)
{
    struct registry_run found;
    weft_status status = registry_run_get(controller->config.registry, run->run, &found, error);
    if (status != WEFT_OK || run_state_is_active(found.state))
        return status;
    controlled_change(controller);
    attempt_forget(controller, run);
    run->since = now;
    if (run_state_is_final(found.state)) {
        bool by_itself = found.cause == RUN_CAUSE_COMPLETED || found.cause == RUN_CAUSE_PROGRAM_FAILED;
        bool learned = by_itself && run->place == CONTROLLED_ON_HOSTS && !run->promised;
        if (learned)
            status = scheduler_finish(controller->scheduler, run->name, controlled_seconds(now), error);
        else if (run->place != CONTROLLED_NOWHERE)
            scheduler_withdraw(controller->scheduler, run->name);
        runs_remove(controller, run);
        return status;
    }
    status = pause_note(controller, run, &found, now, error);
    if (status == WEFT_OK && run->promised && run->pause_end > now)
        runs_break_promise(controller, run, CONTROLLER_WAITS_FOR_PAUSE, now);
    if (status == WEFT_OK && found.state == RUN_PREEMPTED)
        status = requeue(controller, run->run, now, error);
    if (status == WEFT_OK && run->place == CONTROLLED_NOWHERE)
        return runs_enter_again(controller, run, error);
    /* The scheduler thinks that it runs, and has not moved it: something else has ended it. */
    if (run->place == CONTROLLED_ON_HOSTS && !run->promised) {
        scheduler_requeue(controller->scheduler, run->name, controlled_seconds(now));
        run->place = CONTROLLED_IN_QUEUE;
    }
    return status;
}

static bool note_heard(void *context, const struct attempt *attempt, uint32_t node)
{
    struct controlled_run *run = runs_find(context, strtoll(attempt->run, NULL, 10));
    if (run)
        run->heard = true;
    return true;
}

/* Everybody has a turn once a second, for what the engine does not know by itself: TURNS_MOST of them in one step. */
static void note_turns(struct controller *controller, int64_t now)
{
    if (!controller->round && now - controller->round_at >= STEP_PERIOD) {
        controller->round = true;
        controller->round_at = now;
        controller->next_turn = 0;
    }
    if (!controller->round)
        return;
    uint32_t at = runs_place(controller, controller->next_turn), turns = 0;
    for (; at < controller->run_count && turns < TURNS_MOST; at++)
        if (controller->runs[at]->node) {
            controller->runs[at]->heard = true;
            turns++;
        }
    controller->round = at < controller->run_count;
    if (controller->round)
        controller->next_turn = controller->runs[at]->run;
}

/* Read the records of runs with news from the engine, and of those whose turn it is. */
static weft_status hear_all(struct controller *controller, int64_t now, struct error *error)
{
    struct engine *engine = controller->config.engine;
    const bool all = !engine->heard;
    weft_status status = WEFT_OK;
    if (!all)
        status = engine->heard(engine, note_heard, controller, error);
    if (!all && status == WEFT_OK)
        note_turns(controller, now);
    for (uint32_t i = controller->run_count; i-- && status == WEFT_OK;) {
        struct controlled_run *run = controller->runs[i];
        if (!run->node || (!all && !run->heard && (run->started || run->to_start)))
            continue;
        run->heard = false;
        if (run->started)
            status = attempt_hear(controller, run, now, error);
        if (status == WEFT_OK && !run->to_start)
            status = controller_settle(controller, run, now, error);
    }
    return status;
}

/* ---- decide ---- */

static weft_status promise(struct controlled_run *run, const uint32_t *hosts, struct error *error)
{
    size_t bytes = run->nodes * sizeof *hosts;
    uint32_t *promised = malloc(bytes);
    if (!promised)
        return error_memory(error, bytes, "the hosts of a run");
    memcpy(promised, hosts, bytes);
    free(run->promised);
    run->promised = promised;
    run->place = CONTROLLED_ON_HOSTS;
    return WEFT_OK;
}

static weft_status carry_out(struct controller *controller, const struct scheduler_decision *decision, int64_t now,
                             struct error *error)
{
    struct controlled_run *run = controller->by_name[decision->run];
    char detail[128];
    if (decision->kind == SCHEDULER_START)
        return promise(run, decision->hosts, error);
    snprintf(detail, sizeof detail, "for run %" PRId64, controller->by_name[decision->for_run]->run);
    weft_status status = WEFT_OK;
    if (run->node)
        status = attempt_ask(controller, run, decision->kind == SCHEDULER_MOVE ? RUN_CAUSE_MOVE : RUN_CAUSE_PREEMPT, "",
                             detail, now, error);
    if (status == WEFT_OK && decision->kind == SCHEDULER_MOVE)
        return promise(run, decision->hosts, error);
    free(run->promised);
    run->promised = NULL;
    run->place = CONTROLLED_IN_QUEUE;
    return status;
}

/* One pass of the scheduler, carried out. */
static weft_status take_pass(struct controller *controller, int64_t now, struct error *error)
{
    const struct scheduler_decision *decisions;
    size_t count = 0;
    weft_status status = scheduler_pass(controller->scheduler, controlled_seconds(now), &decisions, &count, error);
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = carry_out(controller, &decisions[i], now, error);
    return status;
}

static weft_status controller_decide(struct controller *controller, int64_t now, struct error *error)
{
    bool due = controller->changed || now - controller->passed_at >= PASS_PERIOD || slices_due(controller, now) ||
               (controller->pause_ends && now >= controller->pause_ends);
    if (!due || (!scheduler_queued(controller->scheduler) && !controller->parked))
        return WEFT_OK;
    bool made_way = false;
    weft_status status = gate_all(controller, now, error);
    if (status == WEFT_OK)
        status = take_pass(controller, now, error);
    controller->changed = false;
    controller->plan_stale = true;
    controller->passed_at = now;
    if (status == WEFT_OK)
        status = slices_end(controller, now, &made_way, error);
    if (status == WEFT_OK && made_way) {
        status = take_pass(controller, now, error);
        controlled_change(controller); /* those who gave way wait like others from now on */
    }
    return status;
}

/* ---- act ---- */

/* What is written down before it is done: records heard, decisions, placements. Most steps only hear that runs go on
 * and what they print: those need not be synced. */
static weft_status write_down(struct controller *controller, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    weft_status status = database_begin(registry, DATABASE_AS_NEEDED, error);
    if (status != WEFT_OK)
        return status;
    status = hear_all(controller, now, error);
    if (status == WEFT_OK)
        status = hosts_look(controller, now, error);
    if (status == WEFT_OK)
        status = budget_end_exhausted(controller, now, error);
    if (status == WEFT_OK)
        status = budget_accrue(controller, now, error);
    if (status == WEFT_OK)
        status = controller_decide(controller, now, error);
    for (uint32_t i = 0; i < controller->run_count && status == WEFT_OK; i++)
        if (controller->runs[i]->promised && !controller->runs[i]->node && !*controller->disk_trouble)
            status = attempt_place(controller, controller->runs[i], now, error);
    return database_end(registry, status, error);
}

int controller_descriptor(const struct controller *controller)
{
    return run_directories_descriptor(controller->directories);
}

/* Start and end what is to be. `*more`: of what is to be, or something has failed to start. */
static weft_status act(struct controller *controller, int64_t now, bool *more, struct error *error)
{
    const uint64_t end = clock_now() + ACTS_TIME;
    const uint32_t first = runs_place(controller, controller->next_act);
    uint32_t acts = 0;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < controller->run_count && status == WEFT_OK; i++) {
        struct controlled_run *run = controller->runs[(first + i) % controller->run_count];
        /* Where scheduling is paused, what was placed before is started only if it is to end. */
        const bool starts = run->to_start && run->start_due <= now && (!controller->config.paused || run->to_stop);
        const bool stops = run->to_stop && !run->to_start && run->stop_due <= now;
        if (!starts && !stops)
            continue;
        if (acts >= ACTS_LEAST && clock_now() >= end) {
            controller->next_act = run->run; /* it is the first one then, whatever others have to do again */
            *more = true;
            break;
        }
        acts++;
        if (starts) {
            status = attempt_start(controller, run, now, error);
            *more = *more || (!run->started && !run->to_start);
        }
        if (status == WEFT_OK && run->to_stop && !run->to_start && run->stop_due <= now)
            status = attempt_stop(controller, run, now, error);
    }
    return status;
}

/* The same, with one sync of the disk for all that is written down meanwhile. */
static weft_status act_together(struct controller *controller, int64_t now, bool *more, struct error *error)
{
    struct database *registry = controller->config.registry;
    struct error failure = {0};
    database_group_begin(registry, DATABASE_DURABLE);
    weft_status status = act(controller, now, more, error), ended = database_group_end(registry, &failure);
    return status == WEFT_OK && ended != WEFT_OK ? error_set(error, ended, "%s", failure.text) : status;
}

static bool controller_is_busy(const struct controller *controller)
{
    for (uint32_t i = 0; i < controller->run_count; i++)
        if (controller->runs[i]->node || controller->runs[i]->promised)
            return true;
    return false;
}

weft_status controller_step(struct controller *controller, int64_t now, int64_t *next, struct error *error)
{
    run_directories_hear(controller->directories); /* before looking: what is made later tells again */
    controlled_clock(controller, now);
    bool at_once = false;
    weft_status status = write_down(controller, now, error);
    if (status == WEFT_OK)
        status = act_together(controller, now, &at_once, error);
    bool queued = scheduler_queued(controller->scheduler) != 0, waits = queued || controller->parked;
    *next = now + (at_once || (controller->changed && waits) ? 0
                   : controller->round                       ? TURN_PERIOD
                   : controller_is_busy(controller)          ? STEP_PERIOD
                   : queued                                  ? PASS_PERIOD
                                                             : IDLE_PERIOD);
    const int64_t accrues = controller->accrued_at + BUDGET_PERIOD;
    if (controller->parked && *next > accrues)
        *next = accrues;
    if (controller->parked && *next > controller->accrues_at)
        *next = controller->accrues_at > now ? controller->accrues_at : now;
    if (controller->config.engine->hosts_change && *next > controller->hosts_at)
        *next = controller->hosts_at > now ? controller->hosts_at : now;
    if (controller->pause_ends && *next > controller->pause_ends)
        *next = controller->pause_ends;
    return status;
}

void controller_resume(struct controller *controller)
{
    controller->config.paused = NULL;
    controlled_change(controller);
}

weft_status controller_cancel(struct controller *controller, int64_t number, const char *actor, int64_t now,
                              struct error *error)
{
    struct database *registry = controller->config.registry;
    struct controlled_run *run = runs_find(controller, number);
    if (!run) {
        struct registry_run found;
        weft_status status = registry_run_get(registry, number, &found, error);
        return status != WEFT_OK ? status
                                 : error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " has ended already: %s", number,
                                             run_state_name(found.state));
    }
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    if (run->node) {
        status = attempt_ask(controller, run, RUN_CAUSE_CANCEL, actor, "", now, error);
    } else {
        struct registry_outcome outcome;
        status =
            registry_run_change(registry, number, REGISTRY_PRESENT, RUN_CAUSE_CANCEL, actor, "", now, &outcome, error);
    }
    status = database_end(registry, status, error);
    if (status == WEFT_OK && !run->node) {
        if (run->place != CONTROLLED_NOWHERE)
            scheduler_withdraw(controller->scheduler, run->name);
        runs_remove(controller, run);
    }
    controlled_change(controller);
    return status;
}
