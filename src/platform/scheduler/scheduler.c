/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/scheduler.h"

#include "platform/scheduler/internal/pool.h"
#include "platform/scheduler/internal/priority.h"
#include "platform/scheduler/internal/reservation.h"
#include "platform/scheduler/internal/room.h"
#include "platform/scheduler/internal/state.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scheduler *scheduler_new(const struct scheduler_policy *policy, struct error *error)
{
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (!scheduler) {
        error_memory(error, sizeof *scheduler, "a scheduler");
        return NULL;
    }
    scheduler->policy = *policy;
    scheduler->learned_at = scheduler->exclusive_next = -INFINITY;
    scheduler->exclusive_run = POOL_NOBODY;
    scheduler->history = history_new(error);
    if (!scheduler->history) {
        free(scheduler);
        return NULL;
    }
    return scheduler;
}

void scheduler_free(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        free(scheduler->runs[i].hosts);
    free(scheduler->runs);
    free(scheduler->unused);
    free(scheduler->order);
    free(scheduler->keys);
    free(scheduler->reserved);
    free(scheduler->candidates);
    free(scheduler->standings);
    free(scheduler->decisions);
    history_free(scheduler->history);
    pool_free(&scheduler->pool);
    free(scheduler);
}

weft_status scheduler_add_mixed_pod(struct scheduler *scheduler, uint32_t hosts, const uint32_t *slots,
                                    struct error *error)
{
    const size_t count = (size_t)scheduler->pool.host_count + hosts;
    if (ARRAY_RESERVE(scheduler->reserved, scheduler->reserved_room, count, "reserved hosts", error) != WEFT_OK ||
        ARRAY_RESERVE(scheduler->candidates, scheduler->candidate_room, 2 * count, "hosts to reserve", error) !=
            WEFT_OK)
        return WEFT_ERROR_MEMORY;
    return pool_add_pod(&scheduler->pool, hosts, slots, error);
}

weft_status scheduler_add_pod(struct scheduler *scheduler, uint32_t hosts, uint32_t slots, struct error *error)
{
    uint32_t *each = malloc((hosts + 1) * sizeof *each);
    if (!each)
        return error_memory(error, (hosts + 1) * sizeof *each, "the hosts of a Pod");
    for (uint32_t i = 0; i < hosts; i++)
        each[i] = slots;
    weft_status status = scheduler_add_mixed_pod(scheduler, hosts, each, error);
    free(each);
    return status;
}

const struct pool *scheduler_pool(const struct scheduler *scheduler)
{
    return &scheduler->pool;
}

void scheduler_drain_host(struct scheduler *scheduler, uint32_t host, bool drain)
{
    pool_open(&scheduler->pool, host, !drain);
}

uint32_t scheduler_queued(const struct scheduler *scheduler)
{
    return scheduler->queued;
}

/* ---- runs come and go ---- */

/* A name for one more run, and room for it in the queue. */
static weft_status new_name(struct scheduler *scheduler, uint32_t *name, struct error *error)
{
    if (scheduler->unused_count) {
        *name = scheduler->unused[--scheduler->unused_count];
        return WEFT_OK;
    }
    const size_t count = scheduler->run_count + (size_t)1;
    if (ARRAY_RESERVE(scheduler->runs, scheduler->run_room, count, "runs", error) != WEFT_OK ||
        ARRAY_RESERVE(scheduler->unused, scheduler->unused_room, count, "runs that ended", error) != WEFT_OK ||
        ARRAY_RESERVE(scheduler->order, scheduler->order_room, count, "the queue", error) != WEFT_OK ||
        ARRAY_RESERVE(scheduler->keys, scheduler->key_room, count, "the queue's order", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    memset(&scheduler->runs[scheduler->run_count], 0, sizeof *scheduler->runs);
    *name = scheduler->run_count++;
    return WEFT_OK;
}

/* Queue a run that is known to be one that there can be. */
static weft_status scheduler_enter(struct scheduler *scheduler, const struct scheduler_request *request, double now,
                                   uint32_t *run, struct error *error)
{
    uint32_t name = POOL_NOBODY;
    weft_status status = new_name(scheduler, &name, error);
    if (status != WEFT_OK)
        return status;
    size_t bytes = request->gang.nodes * sizeof(uint32_t);
    uint32_t *hosts = malloc(bytes);
    if (!hosts) {
        scheduler->unused[scheduler->unused_count++] = name;
        return error_memory(error, bytes, "the hosts of a run");
    }
    scheduler->runs[name] = (struct scheduled_run){.request = *request,
                                                   .place = RUN_QUEUED,
                                                   .since = now,
                                                   .ends = INFINITY,
                                                   .reported_end = -INFINITY,
                                                   .hosts = hosts};
    scheduler->queued++;
    *run = name;
    return WEFT_OK;
}

weft_status scheduler_submit(struct scheduler *scheduler, const struct scheduler_request *request, double now,
                             uint32_t *run, struct error *error)
{
    weft_status status = scheduler_check(scheduler, request, error);
    return status == WEFT_OK ? scheduler_enter(scheduler, request, now, run, error) : status;
}

/* What a run has of that which is counted apart, after a change `by` of it. */
static void count_taken(struct scheduler *scheduler, const struct scheduled_run *run, int by)
{
    uint64_t slots = (uint64_t)by * run_slots(run);
    if (run->request.personal)
        scheduler->personal_taken += slots;
    else if (run->request.fixed)
        scheduler->fixed_taken += slots;
}

static void scheduler_give_back(struct scheduler *scheduler, uint32_t name)
{
    struct scheduled_run *run = &scheduler->runs[name];
    for (uint32_t i = 0; i < run_nodes(run); i++)
        pool_give_back(&scheduler->pool, run->hosts[i], name);
    count_taken(scheduler, run, -1);
    run->nodes_lost = 0;
}

static void scheduler_take(struct scheduler *scheduler, uint32_t name)
{
    const struct scheduled_run *run = &scheduler->runs[name];
    for (uint32_t i = 0; i < run_nodes(run); i++)
        pool_take(&scheduler->pool, run->hosts[i], name, run->request.gang.slots);
    count_taken(scheduler, run, 1);
}

/* Whether a run can have these hosts: each is there, is named once, and has the slots free. */
static weft_status check_past(const struct scheduler *scheduler, struct gang gang, const uint32_t *hosts,
                              struct error *error)
{
    for (uint32_t i = 0; i < gang.nodes; i++) {
        if (hosts[i] >= scheduler->pool.host_count || scheduler->pool.hosts[hosts[i]].free < gang.slots)
            return error_set(error, WEFT_ERROR_STATE, "a run of %u slots on host %u, which has not so many free",
                             gang.slots, hosts[i]);
        for (uint32_t k = 0; k < i; k++)
            if (hosts[k] == hosts[i])
                return error_set(error, WEFT_ERROR_STATE, "two nodes of a run on host %u", hosts[i]);
    }
    return WEFT_OK;
}

weft_status scheduler_take_up(struct scheduler *scheduler, const struct scheduler_request *request,
                              const struct scheduler_past *past, uint32_t *name, struct error *error)
{
    /* What has its hosts keeps them, whatever is kept for others by now. */
    struct gang held = request->gang;
    held.nodes -= past->lost;
    weft_status status =
        past->hosts ? check_past(scheduler, held, past->hosts, error) : scheduler_check(scheduler, request, error);
    if (status == WEFT_OK)
        status = scheduler_enter(scheduler, request, past->since, name, error);
    if (status != WEFT_OK)
        return status;
    struct scheduled_run *run = &scheduler->runs[*name];
    run->attained = past->attained;
    run->waited = past->waited;
    if (past->hosts) {
        memcpy(run->hosts, past->hosts, held.nodes * sizeof *past->hosts);
        run->nodes_lost = past->lost;
        run->place = RUN_RUNNING;
        scheduler->queued--;
        scheduler_take(scheduler, *name);
    }
    return WEFT_OK;
}

/* What a run has of all slots. */
static double scheduler_share_of(const struct scheduler *scheduler, const struct scheduled_run *run)
{
    return (double)run_slots(run) / (double)(scheduler->pool.slots + 1);
}

/* Let go of the hosts that were reserved for a run: it needs them no more, or has them. */
static void reservation_release_run(struct scheduler *scheduler, uint32_t name)
{
    for (uint32_t i = 0; i < scheduler->reserved_count; i++)
        if (scheduler->pool.hosts[scheduler->reserved[i]].reserved_for == name)
            pool_reserve(&scheduler->pool, scheduler->reserved[i], POOL_NOBODY);
    if (scheduler->exclusive_run == name)
        scheduler->exclusive_run = POOL_NOBODY;
}

/* A run that reserved its hosts exclusively gives them back after `seconds`: others have their turn, before hosts are
 * reserved so again. */
static void reservation_end_exclusive(struct scheduler *scheduler, struct scheduled_run *run, double now,
                                      double seconds)
{
    if (run->exclusive_share > 0)
        scheduler->exclusive_next =
            now + seconds * fmax(0, scheduler_share_of(scheduler, run) / run->exclusive_share - 1);
    run->exclusive_share = 0;
}

void scheduler_withdraw(struct scheduler *scheduler, uint32_t name)
{
    struct scheduled_run *run = &scheduler->runs[name];
    assert(run->place != RUN_NONE);
    reservation_end_exclusive(scheduler, run, -INFINITY, 0);
    if (run->place == RUN_RUNNING)
        scheduler_give_back(scheduler, name);
    else if (run->place == RUN_QUEUED)
        scheduler->queued--;
    reservation_release_run(scheduler, name);
    free(run->hosts);
    run->hosts = NULL;
    run->place = RUN_NONE;
    scheduler->unused[scheduler->unused_count++] = name;
}

weft_status scheduler_finish(struct scheduler *scheduler, uint32_t name, double now, struct error *error)
{
    struct scheduled_run *run = &scheduler->runs[name];
    assert(run->place == RUN_RUNNING);
    weft_status status = history_add(scheduler->history, run_kind(run), run_attained(run, now), error);
    reservation_end_exclusive(scheduler, run, now, run_age(run, now));
    scheduler_withdraw(scheduler, name);
    return status;
}

weft_status scheduler_learn(struct scheduler *scheduler, const struct scheduler_request *request, double seconds,
                            struct error *error)
{
    return history_add(scheduler->history, run_kind(&(struct scheduled_run){.request = *request}), seconds, error);
}

/* From its hosts into the queue. */
void scheduler_requeue(struct scheduler *scheduler, uint32_t name, double now)
{
    struct scheduled_run *run = &scheduler->runs[name];
    assert(run->place == RUN_RUNNING);
    scheduler_give_back(scheduler, name);
    reservation_end_exclusive(scheduler, run, now, run_age(run, now));
    run->attained = run_attained(run, now);
    run->lost = scheduler->policy.restart_cost;
    run->place = RUN_QUEUED;
    run->since = now;
    run->served_by_wait = false;
    scheduler->queued++;
}

void scheduler_lose(struct scheduler *scheduler, uint32_t name, uint32_t host)
{
    struct scheduled_run *run = &scheduler->runs[name];
    uint32_t at = 0;
    while (at < run_nodes(run) && run->hosts[at] != host)
        at++;
    assert(run->place == RUN_RUNNING && at < run_nodes(run));
    pool_give_back(&scheduler->pool, host, name);
    count_taken(scheduler, run, -1);
    memmove(&run->hosts[at], &run->hosts[at + 1], (run_nodes(run) - at - 1) * sizeof *run->hosts);
    run->nodes_lost++;
    count_taken(scheduler, run, 1);
}

void scheduler_expect_end(struct scheduler *scheduler, uint32_t name, double moment)
{
    scheduler->runs[name].ends = moment;
}

void scheduler_report_end(struct scheduler *scheduler, uint32_t name, double moment)
{
    struct scheduled_run *run = &scheduler->runs[name];
    if (run->place == RUN_RUNNING)
        run->reported_end = moment;
}

void scheduler_avoid(struct scheduler *scheduler, uint32_t name, uint32_t host)
{
    struct scheduled_run *run = &scheduler->runs[name];
    run->avoided[run->avoided_count++ % SCHEDULER_AVOIDED] = host;
}

void scheduler_park(struct scheduler *scheduler, uint32_t name, double now)
{
    struct scheduled_run *run = &scheduler->runs[name];
    if (run->place != RUN_QUEUED)
        return;
    run->place = RUN_PARKED;
    run->parked = now;
    scheduler->queued--;
    reservation_release_run(scheduler, name);
}

void scheduler_unpark(struct scheduler *scheduler, uint32_t name, double now)
{
    struct scheduled_run *run = &scheduler->runs[name];
    if (run->place != RUN_PARKED)
        return;
    run->place = RUN_QUEUED;
    run->since += now - run->parked;
    scheduler->queued++;
}

void scheduler_set_clock(struct scheduler *scheduler, double by)
{
    scheduler->learned_at += by;
    scheduler->exclusive_next += by;
    scheduler->exclusive_ready += by;
    for (uint32_t i = 0; i < scheduler->run_count; i++) {
        scheduler->runs[i].since += by;
        scheduler->runs[i].ends += by;
        scheduler->runs[i].parked += by;
        scheduler->runs[i].reported_end += by;
    }
}

/* ---- a pass ---- */

static weft_status scheduler_decide(struct scheduler *scheduler, struct scheduler_decision decision,
                                    struct error *error)
{
    if (ARRAY_RESERVE(scheduler->decisions, scheduler->decision_room, scheduler->decision_count + 1, "decisions",
                      error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    scheduler->decisions[scheduler->decision_count++] = decision;
    return WEFT_OK;
}

/* From the queue onto its hosts. */
static void scheduler_begin(struct scheduler *scheduler, uint32_t name, double now)
{
    struct scheduled_run *run = &scheduler->runs[name];
    if (name == scheduler->exclusive_run) {
        run->exclusive_share = scheduler->exclusive_share;
        scheduler->exclusive_next = scheduler_share_of(scheduler, run) > run->exclusive_share ? INFINITY : now;
    }
    run->waited += run_age(run, now);
    run->place = RUN_RUNNING;
    run->since = now;
    run->ends = INFINITY;
    run->reported_end = -INFINITY;
    scheduler->queued--;
    scheduler_take(scheduler, name);
    reservation_release_run(scheduler, name);
    priority_update(scheduler, run, now);
}

static weft_status scheduler_start(struct scheduler *scheduler, uint32_t name, double now, struct error *error)
{
    scheduler_begin(scheduler, name, now);
    struct scheduler_decision decision = {SCHEDULER_START, name, name, scheduler->runs[name].hosts};
    return scheduler_decide(scheduler, decision, error);
}

/* Carry out a plan: those that are preempted leave, those that move do, then the run starts. */
static weft_status scheduler_make_room(struct scheduler *scheduler, uint32_t name, const struct room_plan *plan,
                                       double now, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < plan->departure_count && status == WEFT_OK; i++) {
        uint32_t leaver = plan->departures[i].run, to = plan->departures[i].to;
        struct scheduled_run *run = &scheduler->runs[leaver];
        bool served_by_wait = run->served_by_wait;
        scheduler_requeue(scheduler, leaver, now);
        struct scheduler_decision decision = {SCHEDULER_DISPLACE, leaver, name, NULL};
        if (to != POOL_NOBODY) {
            decision.kind = SCHEDULER_MOVE;
            decision.hosts = run->hosts;
            run->hosts[0] = to;
            run->served_by_wait = served_by_wait;
            scheduler_begin(scheduler, leaver, now);
        } else {
            run->preempted++;
            priority_update(scheduler, run, now);
        }
        status = scheduler_decide(scheduler, decision, error);
    }
    memcpy(scheduler->runs[name].hosts, plan->hosts, scheduler->runs[name].request.gang.nodes * sizeof *plan->hosts);
    return status == WEFT_OK ? scheduler_start(scheduler, name, now, error) : status;
}

/*
 * The sets are shapes that were tried in vain: what finds no room for one run finds none for those of the same shape
 * after it, whose priorities are worse.
 */
struct scheduler_pass {
    struct scheduler *scheduler;
    struct room_search *search;
    double now;
    struct shapes placing, filling, moving, preempting, keeping;
    uint64_t fixed_due; /* slots that earlier runs want, and that later ones leave to them */
};

/* Room for a run by moves, or else by preemption. */
static bool scheduler_find_room(struct scheduler_pass *pass, uint32_t name, struct room_plan *plan)
{
    struct scheduler *scheduler = pass->scheduler;
    const struct scheduler_policy *policy = &scheduler->policy;
    const struct scheduled_run *run = &scheduler->runs[name];
    struct gang gang = run->request.gang;
    double slots = run->request.slots;
    if (scheduler->pool.free >= (uint64_t)gang.nodes * gang.slots && !shapes_have(&pass->moving, gang)) {
        if (room_find(pass->search, name, ROOM_MOVES, policy->move_limit * policy->restart_cost * slots, pass->now,
                      plan))
            return true;
        shapes_add(&pass->moving, gang);
    }
    if (run_is_within_share(scheduler, run, 0) && !shapes_have(&pass->keeping, gang)) {
        if (room_find(pass->search, name, ROOM_KEPT, INFINITY, pass->now, plan) ||
            room_find(pass->search, name, ROOM_KEPT_AT_ONCE, INFINITY, pass->now, plan))
            return true;
        shapes_add(&pass->keeping, gang);
    }
    bool patient = run_age(run, pass->now) < policy->patience && !run->served_by_wait;
    if (patient || shapes_have(&pass->preempting, gang))
        return false;
    double limit = policy->preempt_limit * slots;
    if (room_find(pass->search, name, ROOM_DISPLACEMENT, limit, pass->now, plan))
        return true;
    shapes_add(&pass->preempting, gang);
    return false;
}

/* Where a run fits: not on hosts that have failed it, if it fits elsewhere. */
static bool scheduler_place(struct scheduler *scheduler, uint32_t name)
{
    struct scheduled_run *run = &scheduler->runs[name];
    uint32_t closed[SCHEDULER_AVOIDED], count = 0;
    for (uint32_t i = 0; i < run->avoided_count && i < SCHEDULER_AVOIDED; i++)
        if (scheduler->pool.hosts[run->avoided[i]].open) {
            pool_open(&scheduler->pool, run->avoided[i], false);
            closed[count++] = run->avoided[i];
        }
    const bool placed = pool_place(&scheduler->pool, run->request.gang, name, run->hosts);
    for (uint32_t i = 0; i < count; i++)
        pool_open(&scheduler->pool, closed[i], true);
    return placed || (count && pool_place(&scheduler->pool, run->request.gang, name, run->hosts));
}

/*
 * Where a run fits on hosts reserved exclusively for another: it must have ended when these can be empty. The reservations are let
 * go while it is looked for.
 */
static bool scheduler_fill(struct scheduler_pass *pass, uint32_t name)
{
    struct scheduler *scheduler = pass->scheduler;
    const struct scheduled_run *run = &scheduler->runs[name];
    const uint32_t exclusive_run = scheduler->exclusive_run;
    if (exclusive_run == POOL_NOBODY || run->request.limit <= 0 ||
        pass->now + run->request.limit > scheduler->exclusive_ready || shapes_have(&pass->filling, run->request.gang))
        return false;
    bool placed = false;
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        for (uint32_t i = 0; i < scheduler->reserved_count; i++)
            if (scheduler->pool.hosts[scheduler->reserved[i]].reserved_for == exclusive_run)
                pool_set_exclusive(&scheduler->pool, scheduler->reserved[i], exclusive);
        if (!exclusive)
            placed = scheduler_place(scheduler, name);
    }
    if (!placed)
        shapes_add(&pass->filling, run->request.gang);
    return placed;
}

/* Go through the queue once. */
static weft_status walk(struct scheduler_pass *pass, struct error *error)
{
    struct scheduler *scheduler = pass->scheduler;
    uint32_t waiting = scheduler->queued;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < waiting && status == WEFT_OK; i++) {
        uint32_t name = scheduler->order[i];
        struct scheduled_run *run = &scheduler->runs[name];
        struct gang gang = run->request.gang;
        struct room_plan plan;
        if (run_is_beyond_share(scheduler, run, pass->fixed_due)) {
            pass->fixed_due += run->served_by_wait ? run_slots(run) : 0;
            continue;
        }
        if (name == scheduler->exclusive_run || !shapes_have(&pass->placing, gang)) {
            if (scheduler_place(scheduler, name)) {
                status = scheduler_start(scheduler, name, pass->now, error);
                continue;
            }
            shapes_add(&pass->placing, gang);
        }
        if (scheduler_fill(pass, name)) {
            status = scheduler_start(scheduler, name, pass->now, error);
            continue;
        }
        if (scheduler_find_room(pass, name, &plan)) {
            status = scheduler_make_room(scheduler, name, &plan, pass->now, error);
            /* What left may have left more than was needed. */
            shapes_clear(&pass->placing);
            shapes_clear(&pass->filling);
        }
    }
    return status;
}

weft_status scheduler_pass(struct scheduler *scheduler, double now, const struct scheduler_decision **decisions,
                           size_t *count, struct error *error)
{
    scheduler->decision_count = 0;
    struct scheduler_pass pass = {.scheduler = scheduler, .now = now};
    weft_status status = priority_update_all(scheduler, now, error);
    if (status != WEFT_OK)
        return status;
    reservation_renew_exclusive(scheduler, now);
    if (scheduler->queued) {
        pass.search = room_search_new(scheduler, error);
        if (!pass.search)
            return WEFT_ERROR_MEMORY;
        /* The second walk is for those that were preempted: they may fit elsewhere. */
        for (int i = 0; i < 2 && status == WEFT_OK; i++) {
            size_t before = scheduler->decision_count;
            pass.fixed_due = 0;
            status = walk(&pass, error);
            priority_sort(scheduler);
            if (scheduler->decision_count == before)
                break;
        }
        room_search_free(pass.search);
        struct shapes *const sets[] = {&pass.placing, &pass.filling, &pass.moving, &pass.preempting, &pass.keeping};
        for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
            shapes_free(sets[i]);
    }
    if (status != WEFT_OK)
        return status;
    reservation_renew(scheduler, now);
    *decisions = scheduler->decisions;
    *count = scheduler->decision_count;
    return WEFT_OK;
}
