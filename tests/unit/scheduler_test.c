/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's rules, whatever comes: gangs, Pods, ages, slots; order; no two runs that preempt each
 * other. */
#include "base/random.h"
#include "platform/scheduler/outlook.h"
#include "platform/scheduler/scheduler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR 3600.0

static const struct scheduler_policy policy = SCHEDULER_POLICY_DEFAULT;

static struct scheduler *cluster(uint32_t pods, uint32_t hosts, uint32_t slots)
{
    struct error error = {0};
    struct scheduler *scheduler = scheduler_new(&policy, &error);
    assert_non_null(scheduler);
    for (uint32_t p = 0; p < pods; p++)
        assert_int_equal(scheduler_add_pod(scheduler, hosts, slots, &error), WEFT_OK);
    return scheduler;
}

static uint32_t submit(struct scheduler *scheduler, uint32_t nodes, uint32_t slots, double now)
{
    struct scheduler_request request = {
        .gang = {.nodes = nodes, .slots = (uint16_t)slots}, .slots = nodes * slots, .weight = 1};
    struct error error = {0};
    uint32_t run;
    assert_int_equal(scheduler_submit(scheduler, &request, now, &run, &error), WEFT_OK);
    return run;
}

/* A pass, and how many decisions there were of the kind for `run`. */
static size_t pass(struct scheduler *scheduler, double now, enum scheduler_decision_kind kind, uint32_t run)
{
    const struct scheduler_decision *decisions;
    struct error error = {0};
    size_t count, found = 0;
    assert_int_equal(scheduler_pass(scheduler, now, &decisions, &count, &error), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        found += decisions[i].kind == kind && decisions[i].run == run;
    return found;
}

/* ---- anything may come ---- */

#define RUNS  300
#define HOSTS 64

struct mirror {
    struct scheduler_request request;
    uint32_t lost; /* nodes, since it runs */
    bool queued, running;
    double since;
    uint32_t hosts[HOSTS];
};

/* What the decisions make of the cluster, told apart from what the scheduler believes. */
struct world {
    struct scheduler *scheduler;
    struct mirror runs[RUNS];
    uint32_t free[HOSTS], hosts, hosts_of_pod;
    bool drained[HOSTS];
};

static void mirror_leave(struct world *world, struct mirror *run)
{
    assert_true(run->running);
    for (uint32_t i = 0; i < run->request.gang.nodes - run->lost; i++)
        world->free[run->hosts[i]] += run->request.gang.slots;
    run->running = false;
    run->lost = 0;
}

/* One of its nodes is lost, and it goes on. */
static void mirror_lose(struct world *world, uint32_t name, uint32_t node)
{
    struct mirror *run = &world->runs[name];
    const uint32_t host = run->hosts[node];
    scheduler_lose(world->scheduler, name, host);
    run->lost++;
    run->hosts[node] = run->hosts[run->request.gang.nodes - run->lost];
    world->free[host] += run->request.gang.slots;
}

static void mirror_enter(struct world *world, struct mirror *run, const uint32_t *hosts, double now)
{
    assert_true(run->queued && !run->running);
    for (uint32_t i = 0; i < run->request.gang.nodes; i++) {
        assert_true(hosts[i] < world->hosts);
        if (!run->request.gang.spans)
            assert_int_equal(hosts[i] / world->hosts_of_pod, hosts[0] / world->hosts_of_pod);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(hosts[i], hosts[k]);
        assert_false(world->drained[hosts[i]]);
        assert_true(world->free[hosts[i]] >= run->request.gang.slots);
        world->free[hosts[i]] -= run->request.gang.slots;
        run->hosts[i] = hosts[i];
    }
    run->queued = false;
    run->running = true;
    run->since = now;
}

static void mirror_pass(struct world *world, double now)
{
    const struct scheduler_decision *decisions;
    struct error error = {0};
    size_t count;
    assert_int_equal(scheduler_pass(world->scheduler, now, &decisions, &count, &error), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        const struct scheduler_decision *decision = &decisions[i];
        struct mirror *run = &world->runs[decision->run];
        if (decision->kind != SCHEDULER_START) {
            assert_true(now - run->since >= policy.least_age);
            assert_false(run->request.fixed);
            assert_int_not_equal(decision->for_run, decision->run);
            mirror_leave(world, run);
            run->queued = true;
        }
        /* A later decision of the same pass may have changed the hosts: those are of the last one. */
        if (decision->kind != SCHEDULER_DISPLACE)
            mirror_enter(world, run, decision->hosts, now);
    }
    /* No slot that could have been used is idle: what still waits fits nowhere. */
    const struct pool *pool = scheduler_pool(world->scheduler);
    uint32_t queued = 0;
    for (uint32_t r = 0; r < RUNS; r++) {
        uint32_t hosts[HOSTS];
        queued += world->runs[r].queued;
        if (world->runs[r].queued)
            assert_false(pool_place(pool, world->runs[r].request.gang, r, hosts));
    }
    assert_int_equal(queued, scheduler_queued(world->scheduler));
    for (uint32_t h = 0; h < world->hosts; h++)
        assert_int_equal(pool->hosts[h].free, world->free[h]);
}

/* Whether there are hosts enough for a gang that are not drained. */
static bool could_start(const struct world *world, struct gang gang)
{
    uint32_t most = 0, all = 0, here = 0;
    for (uint32_t h = 0; h < world->hosts; h++) {
        here = h % world->hosts_of_pod ? here : 0;
        here += !world->drained[h];
        all += !world->drained[h];
        most = here > most ? here : most;
    }
    return (gang.spans ? all : most) >= gang.nodes;
}

static void check_outlooks(const struct world *world, double now)
{
    struct outlook outlooks[RUNS];
    struct error error = {0};
    char text[512];
    assert_int_equal(outlook_all(world->scheduler, now, outlooks, &error), WEFT_OK);
    for (uint32_t i = 0; i < scheduler_queued(world->scheduler); i++) {
        assert_true(world->runs[outlooks[i].run].queued);
        assert_int_equal(outlooks[i].position, i);
        assert_true(outlooks[i].expected_start >= now);
        outlook_say(&outlooks[i], now, text, sizeof text);
        const bool closed = !could_start(world, outlooks[i].gang);
        assert_int_equal(outlooks[i].reason == OUTLOOK_CLOSED, closed);
        assert_int_equal(isinf(outlooks[i].expected_start), closed);
        assert_non_null(strstr(text, closed ? "out of use" : "expected to start"));
    }
}

static void whatever_comes(uint64_t seed)
{
    uint64_t n = 0;
#define DRAW(bound) random_below(seed, n++, bound)
    uint32_t pods = 1 + (uint32_t)DRAW(4), hosts = 1 + (uint32_t)DRAW(HOSTS / 4), slots = 1 + (uint32_t)DRAW(9);
    struct world world = {.scheduler = cluster(pods, hosts, slots), .hosts = pods * hosts, .hosts_of_pod = hosts};
    for (uint32_t h = 0; h < world.hosts; h++)
        world.free[h] = slots;
    double now = 0;
    for (int event = 0; event < 400; event++) {
        struct error error = {0};
        now += (double)DRAW(3000);
        for (uint64_t arrivals = DRAW(4); arrivals--;) {
            struct scheduler_request request = {.weight = 1};
            request.project = (uint32_t)DRAW(3);
            request.fixed = DRAW(5) == 0;
            request.limit = DRAW(2) ? 0 : 60 + (double)DRAW(40000);
            bool wide = DRAW(4) == 0;
            const bool spans = wide && DRAW(3) == 0;
            uint32_t nodes = wide ? 1 + (uint32_t)DRAW(spans ? world.hosts : hosts) : 1;
            request.gang = (struct gang){.nodes = nodes, .slots = (uint16_t)(wide ? slots : 1 + DRAW(slots))};
            request.gang.spans = spans;
            request.slots = request.gang.nodes * request.gang.slots;
            uint32_t run;
            if (scheduler_queued(world.scheduler) > RUNS / 4)
                break;
            assert_int_equal(scheduler_submit(world.scheduler, &request, now, &run, &error), WEFT_OK);
            assert_true(run < RUNS && !world.runs[run].queued && !world.runs[run].running);
            world.runs[run] = (struct mirror){.request = request, .queued = true};
        }
        for (uint32_t r = 0; r < RUNS; r++) {
            struct mirror *run = &world.runs[r];
            uint64_t fate = run->running || run->queued ? DRAW(60) : 60;
            if (run->running && fate < 3) {
                assert_int_equal(scheduler_finish(world.scheduler, r, now, &error), WEFT_OK);
                mirror_leave(&world, run);
            } else if (run->running && fate == 3) { /* its host has failed */
                scheduler_requeue(world.scheduler, r, now);
                mirror_leave(&world, run);
                run->queued = true;
            } else if (run->running && fate == 5 && run->request.gang.nodes > run->lost + 1) {
                mirror_lose(&world, r, (uint32_t)DRAW(run->request.gang.nodes - run->lost));
            } else if (fate == 4) {
                scheduler_withdraw(world.scheduler, r);
                if (run->running)
                    mirror_leave(&world, run);
                run->queued = false;
            }
        }
        if (DRAW(10) == 0) {
            uint32_t host = (uint32_t)DRAW(world.hosts);
            world.drained[host] = !world.drained[host];
            scheduler_drain_host(world.scheduler, host, world.drained[host]);
        }
        mirror_pass(&world, now);
        check_outlooks(&world, now);
    }
#undef DRAW
    scheduler_free(world.scheduler);
}

static void slots_are_never_taken_twice_and_gangs_are_whole(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        whatever_comes(seed);
}

/* ---- single rules ---- */

static void a_gang_starts_whole_or_not_at_all(void **state)
{
    struct scheduler *scheduler = cluster(2, 2, 8);
    uint32_t small[2];
    for (int i = 0; i < 2; i++)
        small[i] = submit(scheduler, 1, 1, 0);
    assert_int_equal(pass(scheduler, 0, SCHEDULER_START, small[0]), 1);
    uint32_t first = submit(scheduler, 2, 8, 1), second = submit(scheduler, 2, 8, 1);
    /* The small ones share a host of one Pod: the other Pod has two hosts, so one gang starts and one waits. */
    size_t started = pass(scheduler, 1, SCHEDULER_START, first);
    assert_int_equal(scheduler_queued(scheduler), 1);
    assert_int_equal(pass(scheduler, 2, SCHEDULER_START, second), 0);
    assert_int_equal(scheduler_finish(scheduler, started ? first : second, 3, NULL), WEFT_OK);
    assert_int_equal(pass(scheduler, 3, SCHEDULER_START, started ? second : first), 1);
    scheduler_free(scheduler);
}

static void holes_are_filled_and_whole_hosts_kept(void **state)
{
    struct scheduler *scheduler = cluster(1, 3, 8);
    submit(scheduler, 1, 5, 0);
    pass(scheduler, 0, SCHEDULER_START, 0);
    uint32_t two = submit(scheduler, 1, 2, 1), one = submit(scheduler, 1, 1, 1);
    pass(scheduler, 1, SCHEDULER_START, two);
    const struct pool *pool = scheduler_pool(scheduler);
    assert_int_equal(pool->hosts[0].free, 0);
    assert_int_equal(pool->hosts[1].free + pool->hosts[2].free, 16);
    assert_int_equal(pool->hosts[0].occupant[1] + pool->hosts[0].occupant[2], two + one);
    scheduler_free(scheduler);
}

static void runs_move_to_make_a_host_whole(void **state)
{
    struct scheduler *scheduler = cluster(1, 2, 8);
    uint32_t large = submit(scheduler, 1, 7, 0);
    pass(scheduler, 0, SCHEDULER_START, large);
    uint32_t left = submit(scheduler, 1, 4, 0);
    pass(scheduler, 0, SCHEDULER_START, left);
    assert_int_equal(scheduler_finish(scheduler, large, 10, NULL), WEFT_OK);
    uint32_t right = submit(scheduler, 1, 3, 10); /* tightest: beside the four */
    pass(scheduler, 10, SCHEDULER_START, right);
    assert_int_equal(scheduler_finish(scheduler, left, 20, NULL), WEFT_OK);
    left = submit(scheduler, 1, 6, 20);
    pass(scheduler, 20, SCHEDULER_START, left); /* 6 on one host, 3 on the other; 7 are free */
    uint32_t waits = submit(scheduler, 1, 7, 30);
    assert_int_equal(pass(scheduler, 30, SCHEDULER_START, waits), 0);
    assert_int_equal(scheduler_finish(scheduler, left, 40, NULL), WEFT_OK);
    assert_int_equal(pass(scheduler, 40, SCHEDULER_START, waits), 1);
    /* Now 7 on one host, 3 on the other, and 8 asked for: the 3 would have to move, and cannot. With 5 on the first
     * they can. */
    assert_int_equal(scheduler_finish(scheduler, waits, 50, NULL), WEFT_OK);
    uint32_t five = submit(scheduler, 1, 6, 50);
    pass(scheduler, 50, SCHEDULER_START, five);
    uint32_t whole = submit(scheduler, 1, 8, 60);
    assert_int_equal(pass(scheduler, 10 + HOUR, SCHEDULER_MOVE, right), 0); /* 3 and 6 do not fit together */
    assert_int_equal(scheduler_finish(scheduler, five, 20 + HOUR, NULL), WEFT_OK);
    assert_int_equal(pass(scheduler, 30 + HOUR, SCHEDULER_START, whole), 1);
    scheduler_free(scheduler);

    scheduler = cluster(1, 2, 8);
    uint32_t a = submit(scheduler, 1, 8, 0), b = submit(scheduler, 1, 2, 0), c = submit(scheduler, 1, 3, 0);
    pass(scheduler, 0, SCHEDULER_START, a);
    assert_int_equal(scheduler_finish(scheduler, a, 1, NULL), WEFT_OK);
    uint32_t d = submit(scheduler, 1, 4, 2);
    pass(scheduler, 2, SCHEDULER_START, d); /* 2 + 3 on one host, 4 on the other */
    whole = submit(scheduler, 1, 8, 3);
    assert_int_equal(pass(scheduler, HOUR - 1, SCHEDULER_START, whole), 0); /* all are too young */
    assert_int_equal(scheduler_finish(scheduler, b, HOUR, NULL), WEFT_OK);
    assert_int_equal(pass(scheduler, HOUR + 1, SCHEDULER_MOVE, c), 1); /* 3 beside 4: a host is whole again */
    assert_int_equal(scheduler_queued(scheduler), 0);
    scheduler_free(scheduler);
}

static void a_run_without_checkpoints_stays(void **state)
{
    struct scheduler *scheduler = cluster(1, 1, 8);
    struct scheduler_request request = {.gang = {.nodes = 1, .slots = 8}, .slots = 8, .weight = 1, .fixed = true};
    uint32_t run, fixed;
    assert_int_equal(scheduler_submit(scheduler, &request, 0, &fixed, NULL), WEFT_OK);
    pass(scheduler, 0, SCHEDULER_START, fixed);
    run = submit(scheduler, 1, 1, 0);
    for (double now = 0; now < 500 * HOUR; now += HOUR)
        assert_int_equal(pass(scheduler, now, SCHEDULER_START, run), 0);
    scheduler_free(scheduler);
}

static void a_short_run_preempts_one_that_has_run_for_days(void **state)
{
    struct scheduler *scheduler = cluster(1, 1, 1);
    double now = 0;
    /* The history: most runs end within minutes. */
    for (int i = 0; i < 200; i++) {
        uint32_t run = submit(scheduler, 1, 1, now);
        pass(scheduler, now, SCHEDULER_START, run);
        now += 120;
        assert_int_equal(scheduler_finish(scheduler, run, now, NULL), WEFT_OK);
    }
    uint32_t old = submit(scheduler, 1, 1, now);
    pass(scheduler, now, SCHEDULER_START, old);
    now += 100 * HOUR;
    uint32_t new = submit(scheduler, 1, 1, now);
    assert_int_equal(pass(scheduler, now, SCHEDULER_DISPLACE, old), 0); /* not at once */
    now += policy.patience;
    assert_int_equal(pass(scheduler, now, SCHEDULER_DISPLACE, old), 1);
    assert_int_equal(scheduler_finish(scheduler, new, now + 100, NULL), WEFT_OK);
    assert_int_equal(pass(scheduler, now + 100, SCHEDULER_START, old), 1);
    scheduler_free(scheduler);
}

static void a_wide_run_is_served_in_the_end(void **state)
{
    struct scheduler *scheduler = cluster(1, 4, 4);
    uint32_t wide = 0;
    double now = 0, started = -1;
    /* Small runs that do not end keep coming, more than there is room for. */
    for (; now < 200 * HOUR && started < 0; now += 300) {
        for (int i = 0; i < 2; i++)
            submit(scheduler, 1, 1, now);
        if (now == 10 * HOUR)
            wide = submit(scheduler, 4, 4, now);
        if (pass(scheduler, now, SCHEDULER_START, wide) && now > 10 * HOUR)
            started = now;
    }
    assert_true(started >= 0);
    assert_true(started - 10 * HOUR <= policy.longest_wide_wait + policy.least_age + 600);
    scheduler_free(scheduler);
}

/* What may span Pods does so only where no Pod has room enough. */
static void a_run_spans_pods_only_where_it_must(void **state)
{
    struct scheduler *scheduler = cluster(2, 2, 8);
    struct scheduler_request request = {.gang = {.nodes = 2, .slots = 8, .spans = true}, .slots = 16, .weight = 1};
    const struct scheduler_decision *decisions;
    struct error error = {0};
    size_t count;
    uint32_t run, small = submit(scheduler, 1, 1, 0);
    assert_int_equal(pass(scheduler, 0, SCHEDULER_START, small), 1);
    assert_int_equal(scheduler_submit(scheduler, &request, 1, &run, &error), WEFT_OK);
    assert_int_equal(scheduler_pass(scheduler, 1, &decisions, &count, &error), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(decisions[0].hosts[0] / 2, decisions[0].hosts[1] / 2); /* the Pod that is empty */
    scheduler_withdraw(scheduler, run);
    request.gang.nodes = 3;
    request.slots = 24;
    assert_int_equal(scheduler_submit(scheduler, &request, 2, &run, &error), WEFT_OK);
    assert_int_equal(pass(scheduler, 2, SCHEDULER_START, run), 1);
    scheduler_free(scheduler);
}

/* A host that has failed a run is its last choice. */
static void a_run_is_tried_elsewhere(void **state)
{
    struct scheduler *scheduler = cluster(1, 2, 2);
    const struct scheduler_decision *decisions;
    struct error error = {0};
    size_t count;
    uint32_t run = submit(scheduler, 1, 1, 0), host = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        assert_int_equal(scheduler_pass(scheduler, attempt, &decisions, &count, &error), WEFT_OK);
        assert_int_equal(count, 1);
        if (attempt == 1)
            assert_int_not_equal(decisions[0].hosts[0], host);
        host = decisions[0].hosts[0]; /* in the end both have failed it: either will do */
        scheduler_avoid(scheduler, run, host);
        scheduler_requeue(scheduler, run, attempt);
    }
    /* Where there is no other, the same one. */
    scheduler_withdraw(scheduler, run);
    run = submit(scheduler, 1, 1, 10);
    scheduler_avoid(scheduler, run, 0);
    scheduler_drain_host(scheduler, 1, true);
    assert_int_equal(pass(scheduler, 10, SCHEDULER_START, run), 1);
    assert_true(scheduler_pool(scheduler)->hosts[0].open);
    scheduler_free(scheduler);
}

/* With runs of other projects: priority orders runs within a project only; the user with less of the
 * cluster goes first. */
static void projects_stand_by_their_share(void **state)
{
    struct scheduler *scheduler = cluster(1, 1, 8);
    struct scheduler_request request = {.gang = {.nodes = 1, .slots = 8}, .slots = 8, .weight = 1, .fixed = true};
    struct error error = {0};
    struct outlook outlooks[8];
    uint32_t first, runs[5];
    assert_int_equal(scheduler_submit(scheduler, &request, 0, &first, &error), WEFT_OK);
    assert_int_equal(pass(scheduler, 0, SCHEDULER_START, first), 1);
    request.project = 0; /* has all slots; the second of these two is to go before the first */
    assert_int_equal(scheduler_submit(scheduler, &request, 1, &runs[0], &error), WEFT_OK);
    request.weight = 16;
    assert_int_equal(scheduler_submit(scheduler, &request, 2, &runs[1], &error), WEFT_OK);
    request.project = 1;
    request.weight = 0.5;
    assert_int_equal(scheduler_submit(scheduler, &request, 3, &runs[2], &error), WEFT_OK);
    pass(scheduler, 4, SCHEDULER_START, first);
    assert_int_equal(outlook_all(scheduler, 4, outlooks, &error), WEFT_OK);
    assert_int_equal(outlooks[0].run, runs[2]);
    assert_int_equal(outlooks[1].run, runs[1]);
    assert_int_equal(outlooks[2].run, runs[0]);
    scheduler_free(scheduler);
}

/* A run that began in the future, by a clock that has been set back: it goes no sooner for that. */
static void a_clock_that_is_set_back_puts_nobody_first(void **state)
{
    struct scheduler *scheduler = cluster(1, 1, 8);
    uint32_t wide = submit(scheduler, 1, 8, 5000 * HOUR), narrow = submit(scheduler, 1, 1, 10);
    const struct scheduler_decision *decisions;
    size_t count;
    assert_int_equal(scheduler_pass(scheduler, 20, &decisions, &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(decisions[0].kind, SCHEDULER_START);
    assert_int_equal(decisions[0].run, narrow);
    scheduler_withdraw(scheduler, narrow);
    assert_int_equal(pass(scheduler, 30, SCHEDULER_START, wide), 1);
    scheduler_free(scheduler);
}

/* And with their use: two that take turns by what they have had go on to do so. */
static void nobody_has_waited_less_for_a_clock_that_is_set(void **state)
{
    struct scheduler *scheduler = cluster(1, 1, 8);
    uint32_t first = submit(scheduler, 1, 8, 0);
    assert_int_equal(pass(scheduler, 0, SCHEDULER_START, first), 1);
    uint32_t second = submit(scheduler, 1, 8, HOUR);
    assert_int_equal(pass(scheduler, HOUR, SCHEDULER_START, second), 0);
    assert_int_equal(scheduler_queued(scheduler), 1);
    struct outlook before[1], after[1];
    const double moment = 30 * HOUR, by = -1000 * HOUR;
    assert_int_equal(outlook_all(scheduler, moment, before, NULL), WEFT_OK);
    scheduler_set_clock(scheduler, by);
    assert_int_equal(outlook_all(scheduler, moment + by, after, NULL), WEFT_OK);
    assert_true(after[0].expected_start - by == before[0].expected_start);
    scheduler_free(scheduler);
}

static void what_can_never_fit_is_refused(void **state)
{
    struct scheduler *scheduler = cluster(2, 2, 8);
    struct scheduler_request request = {.gang = {.nodes = 3, .slots = 8}, .slots = 24, .weight = 1};
    struct error error = {0};
    uint32_t run;
    assert_int_equal(scheduler_submit(scheduler, &request, 0, &run, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "no Pod has more than 2 such hosts"));
    request.gang = (struct gang){.nodes = 5, .slots = 8, .spans = true};
    error_clear(&error);
    assert_int_equal(scheduler_submit(scheduler, &request, 0, &run, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "all Pods together have 4 such hosts"));
    request.gang = (struct gang){.nodes = 1, .slots = 9};
    error_clear(&error);
    assert_int_equal(scheduler_submit(scheduler, &request, 0, &run, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "no host has more than 8"));
    scheduler_free(scheduler);
}

/* A run that many short ones preempt in turn has its peace after some times. */
static void a_run_that_was_preempted_often_is_safe_for_longer(void **state)
{
    struct scheduler *scheduler = cluster(1, 1, 1);
    double now = 0, preempted_at[64];
    for (int i = 0; i < 200; i++) { /* the history: most runs end within minutes */
        uint32_t run = submit(scheduler, 1, 1, now);
        pass(scheduler, now, SCHEDULER_START, run);
        now += 120;
        assert_int_equal(scheduler_finish(scheduler, run, now, NULL), WEFT_OK);
    }
    uint32_t old = submit(scheduler, 1, 1, now), times = 0;
    pass(scheduler, now, SCHEDULER_START, old);
    now += 100 * HOUR;
    /* One short run after another waits, as long as it takes. */
    for (uint32_t new = submit(scheduler, 1, 1, now); times < policy.preempt_often + 3; now += 60) {
        if (!pass(scheduler, now, SCHEDULER_DISPLACE, old))
            continue;
        preempted_at[times++] = now;
        assert_int_equal(scheduler_finish(scheduler, new, now + 30, NULL), WEFT_OK);
        new = submit(scheduler, 1, 1, now + 31);
        assert_int_equal(pass(scheduler, now + 32, SCHEDULER_START, old), 0); /* the new one is better: it runs first */
        assert_int_equal(scheduler_finish(scheduler, new, now + 40, NULL), WEFT_OK);
        assert_int_equal(pass(scheduler, now + 41, SCHEDULER_START, old), 1);
        new = submit(scheduler, 1, 1, now + 42);
    }
    for (uint32_t i = 1; i < times; i++) {
        double safe = policy.least_age * (i <= policy.preempt_often ? 1 : 1u << (i - (uint32_t)policy.preempt_often));
        assert_true(preempted_at[i] - preempted_at[i - 1] >= safe);
        assert_true(preempted_at[i] - preempted_at[i - 1] < safe + 600);
    }
    scheduler_free(scheduler);
}

/* ---- no cycles, in all small cases ---- */

#define JOBS 4

struct player {
    double left, since;
    bool running;
};

/* Four runs on two hosts of two slots; shapes and durations by the digits of `code`. How often who preempted whom:
 * `pairs`. */
static void play(unsigned code, unsigned pairs[JOBS][JOBS])
{
    static const struct gang shapes[3] = {{.nodes = 1, .slots = 1}, {.nodes = 1, .slots = 2}, {.nodes = 2, .slots = 2}};
    static const double durations[2] = {900, 9 * HOUR};
    struct scheduler *scheduler = cluster(1, 2, 2);
    struct player players[JOBS] = {{0}};
    uint32_t name[JOBS], of_name[JOBS]; /* the scheduler gives a name again when its run has ended */
    double now = 0;
    for (uint32_t done = 0, submitted = 0; done < JOBS; now += 300) {
        assert_true(now < 4000 * HOUR); /* all end */
        if (submitted < JOBS && now >= submitted * 2 * HOUR) {
            struct gang shape = shapes[code % 3];
            players[submitted].left = durations[code / 3 % 2];
            code /= 6;
            name[submitted] = submit(scheduler, shape.nodes, shape.slots, now);
            of_name[name[submitted]] = submitted;
            submitted++;
        }
        for (uint32_t i = 0; i < submitted; i++) {
            struct player *player = &players[i];
            if (player->running && now - player->since >= player->left) {
                assert_int_equal(scheduler_finish(scheduler, name[i], now, NULL), WEFT_OK);
                player->running = false;
                done++;
            }
        }
        const struct scheduler_decision *decisions;
        size_t count;
        assert_int_equal(scheduler_pass(scheduler, now, &decisions, &count, NULL), WEFT_OK);
        for (size_t i = 0; i < count; i++) {
            uint32_t run = of_name[decisions[i].run];
            if (decisions[i].kind != SCHEDULER_START)
                players[run].left -= now - players[run].since - policy.restart_cost;
            if (decisions[i].kind == SCHEDULER_DISPLACE)
                pairs[of_name[decisions[i].for_run]][run]++;
            players[run].running = decisions[i].kind != SCHEDULER_DISPLACE;
            players[run].since = now;
        }
    }
    scheduler_free(scheduler);
}

/* Runs may take turns a few times; each time after that is twice as far away, so that nothing goes round for ever. */
static void no_two_runs_preempt_each_other_for_ever(void **state)
{
    unsigned preempted = 0, most = 0;
    for (unsigned code = 0; code < 6 * 6 * 6 * 6; code++) {
        unsigned pairs[JOBS][JOBS] = {{0}};
        play(code, pairs);
        for (int run = 0; run < JOBS; run++) {
            unsigned times = 0;
            for (int by = 0; by < JOBS; by++)
                times += pairs[by][run];
            preempted += times;
            most = times > most ? times : most;
        }
    }
    print_message("%u preemptions, %u of one run at most\n", preempted, most);
    assert_true(preempted > 10); /* else this has shown nothing */
    assert_true(most <= policy.preempt_often);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_never_taken_twice_and_gangs_are_whole),
        cmocka_unit_test(a_gang_starts_whole_or_not_at_all),
        cmocka_unit_test(holes_are_filled_and_whole_hosts_kept),
        cmocka_unit_test(runs_move_to_make_a_host_whole),
        cmocka_unit_test(a_run_without_checkpoints_stays),
        cmocka_unit_test(a_short_run_preempts_one_that_has_run_for_days),
        cmocka_unit_test(a_wide_run_is_served_in_the_end),
        cmocka_unit_test(a_run_spans_pods_only_where_it_must),
        cmocka_unit_test(a_run_is_tried_elsewhere),
        cmocka_unit_test(projects_stand_by_their_share),
        cmocka_unit_test(a_clock_that_is_set_back_puts_nobody_first),
        cmocka_unit_test(nobody_has_waited_less_for_a_clock_that_is_set),
        cmocka_unit_test(what_can_never_fit_is_refused),
        cmocka_unit_test(a_run_that_was_preempted_often_is_safe_for_longer),
        cmocka_unit_test(no_two_runs_preempt_each_other_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
