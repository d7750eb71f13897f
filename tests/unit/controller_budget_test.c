/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets under the controller: who can pay starts and holds, who cannot waits and is in nobody's way, what ends is
 * charged, and the sums are right whenever the controller dies.
 */
#include "base/random.h"
#include "controller_support.h"

/* "vision" grows by `rate` slot-minutes a day up to `cap`, and has `pool` of them. */
static void give_budget(struct world *world, double rate, double cap, double pool)
{
    int64_t minute = LEDGER_SLOT_MINUTE;
    CHANGE(world->registry, ledger_budget_put(world->registry, "vision", (int64_t)(rate * (double)minute),
                                              (int64_t)(cap * (double)minute), true, world->now, &error));
    if (pool > 0)
        CHANGE(world->registry, ledger_grant(world->registry, "vision", (int64_t)(pool * (double)minute), "root", "",
                                             world->now, &error));
    controller_budgets_changed(world->controller);
}

static struct ledger_budget budget_of(struct world *world)
{
    struct ledger_budget budget;
    assert_int_equal(ledger_budget_get(world->registry, "vision", 0, &budget, NULL), WEFT_OK);
    return budget;
}

static void what_is_held_is_charged_as_far_as_it_was_used(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    give_budget(&world, 0, 0, 1000);
    int64_t run = give(&world, 1, 4, ",\"time_limit\":\"1h\"", HOUR / 2);
    pass(&world, BEGIN + SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    assert_int_equal(budget_of(&world).held, 240 * LEDGER_SLOT_MINUTE);
    assert_int_equal(budget_of(&world).pool, 760 * LEDGER_SLOT_MINUTE);
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_int_equal(budget_of(&world).held, 0);
    assert_int_equal(budget_of(&world).spent, 120 * LEDGER_SLOT_MINUTE);
    assert_int_equal(budget_of(&world).pool, 880 * LEDGER_SLOT_MINUTE);
    check_ledger(&world);
    close_world(&world);
}

static void who_cannot_pay_waits_until_enough_has_accrued(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    give_budget(&world, 1440, 10000, 0); /* one a minute */
    /* The whole host would be kept from others if it were only waiting for slots. */
    int64_t poor = give(&world, 1, 8, ",\"time_limit\":\"30m\"", HOUR / 4);
    int64_t other = give_to(&world, "speech", "carl", 1, 8, "", HOUR);
    pass(&world, BEGIN + SECOND);
    assert_int_equal(state_of(&world, poor), RUN_QUEUED);
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    assert_why(&world, poor, "waits for budget: project 'vision' has 0.0 slot-minutes, and it needs 240.0 to begin");
    assert_why(&world, poor, "accrues in 4.0 h");
    pass(&world, BEGIN + 239 * MINUTE);
    assert_int_equal(state_of(&world, poor), RUN_QUEUED);
    pass(&world, BEGIN + 242 * MINUTE);
    assert_int_equal(state_of(&world, poor), RUN_RUNNING);
    pass(&world, BEGIN + 5 * HOUR);
    assert_int_equal(state_of(&world, poor), RUN_SUCCEEDED);
    check_ledger(&world);
    close_world(&world);
}

/* It starts when what is lacking has accrued, and not with the next minute; the forecast counts down to that. */
static void the_moment_it_has_accrued_is_the_moment_it_starts(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    give_budget(&world, 1440, 10000, 0); /* one a minute */
    int64_t run = give(&world, 1, 1, ",\"time_limit\":\"90s\"", MINUTE);
    pass(&world, BEGIN + 30 * SECOND);
    assert_why(&world, run, "project 'vision' has 0.5 slot-minutes, and it needs 1.5 to begin");
    assert_why(&world, run, "accrues in 60 s");
    pass(&world, BEGIN + 80 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_QUEUED);
    assert_why(&world, run, "project 'vision' has 1.3 slot-minutes, and it needs 1.5 to begin");
    assert_why(&world, run, "accrues in 10 s");
    pass(&world, BEGIN + 91 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    check_ledger(&world);
    close_world(&world);
}

/* A start posts what has accrued since the last one only where the run needs it. */
static void who_has_enough_starts_without_an_accrual(void **state)
{
    struct world world;
    struct ledger_entry *entries;
    size_t count;
    open_world(&world, 1, 8);
    give_budget(&world, 1440, 10000, 1000);
    pass(&world, BEGIN + MINUTE);
    for (int i = 0; i < 5; i++) {
        give(&world, 1, 1, ",\"time_limit\":\"1h\"", MINUTE);
        pass(&world, world.now + SECOND);
    }
    assert_int_equal(budget_of(&world).held, 300 * LEDGER_SLOT_MINUTE);
    assert_int_equal(ledger_entries(world.registry, "vision", 0, 100, &entries, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].kind, "accrual") == 0)
            assert_true(entries[i].time == BEGIN || entries[i].amount > LEDGER_SLOT_MINUTE ||
                        entries[i].amount < -LEDGER_SLOT_MINUTE);
    free(entries);
    check_ledger(&world);
    close_world(&world);
}

/* What has accrued while nobody asked is there at once. */
static void what_has_accrued_is_there_at_once(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    give_budget(&world, 1440, 10000, 0);
    pass(&world, BEGIN + 31 * MINUTE);
    int64_t run = give(&world, 1, 1, ",\"time_limit\":\"30m\"", HOUR / 4);
    pass(&world, world.now + SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    close_world(&world);
}

static void a_grant_starts_at_once_what_it_pays_for(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    give_budget(&world, 0, 100, 10);
    int64_t run = give(&world, 1, 2, ",\"time_limit\":\"1h\"", HOUR / 2);
    pass(&world, BEGIN + SECOND);
    assert_why(&world, run, "cannot start on the budget of project 'vision': it needs 120.0 slot-minutes to begin");
    assert_why(&world, run, "never more than 10.0");
    give_budget(&world, 0, 100, 110);
    pass(&world, BEGIN + 2 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    close_world(&world);
}

static void a_member_has_what_was_handed_on(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    CHANGE(world.registry, ledger_budget_put(world.registry, "vision", 0, 0, false, world.now, &error));
    CHANGE(world.registry,
           ledger_grant(world.registry, "vision", 1000 * LEDGER_SLOT_MINUTE, "root", "", world.now, &error));
    controller_budgets_changed(world.controller);
    int64_t run = give_to(&world, "vision", "bob", 1, 1, ",\"time_limit\":\"1h\"", HOUR / 2);
    pass(&world, BEGIN + SECOND);
    assert_why(&world, run, "'bob' has 0.0 slot-minutes in project 'vision', and it needs 60.0 to begin; a manager");
    CHANGE(world.registry,
           ledger_transfer(world.registry, "vision", "", "bob", 60 * LEDGER_SLOT_MINUTE, "ada", "", world.now, &error));
    controller_budgets_changed(world.controller);
    pass(&world, BEGIN + 2 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    close_world(&world);
}

/* What one run needs is set aside for it while it waits for slots: the next one of the project does not take it. */
static void what_waits_for_slots_keeps_what_it_needs(void **state)
{
    struct world world;
    open_world(&world, 2, 8);
    give_budget(&world, 0, 0, 1000);
    int64_t blocker = give_to(&world, "speech", "carl", 1, 1, "", HOUR);
    pass(&world, BEGIN + SECOND);
    int64_t wide = give(&world, 2, 8, ",\"time_limit\":\"1h\"", HOUR / 2);     /* 960 */
    int64_t small = give(&world, 1, 1, ",\"time_limit\":\"1h\"", HOUR / 2);    /* 60 */
    int64_t smaller = give(&world, 1, 1, ",\"time_limit\":\"20m\"", HOUR / 6); /* 20 */
    pass(&world, BEGIN + 2 * SECOND);
    assert_int_equal(state_of(&world, blocker), RUN_RUNNING);
    assert_int_equal(state_of(&world, small), RUN_QUEUED);
    assert_int_equal(state_of(&world, smaller), RUN_RUNNING);
    assert_why(&world, wide, "waits for 2 hosts");
    assert_why(&world, small, "and 960.0 of them are set aside for runs before it, and it needs 60.0");
    pass(&world, BEGIN + 3 * HOUR);
    assert_int_equal(state_of(&world, wide), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, small), RUN_SUCCEEDED);
    check_ledger(&world);
    close_world(&world);
}

/* And while others are leaving the slots that it has. */
static void what_has_its_slots_keeps_what_it_needs(void **state)
{
    struct world world;
    open_world(&world, 1, 2);
    for (int i = 0; i < 40; i++) { /* a history of short runs */
        give(&world, 1, 2, "", MINUTE);
        pass(&world, world.now + 70 * SECOND);
    }
    int64_t old = give_to(&world, "speech", "carl", 1, 2, ",\"preemptible\":true", 500 * HOUR);
    pass(&world, world.now + 100 * HOUR);
    give_budget(&world, 0, 0, 10);
    int64_t first = give(&world, 1, 2, ",\"time_limit\":\"5m\"", MINUTE);
    while (!has_event(&world, old, RUN_CAUSE_PREEMPT))
        pass(&world, world.now + SECOND);
    assert_why(&world, first, "has its slots, and starts when those who had them have left");
    int64_t second = give(&world, 1, 1, ",\"time_limit\":\"5m\"", MINUTE);
    pass(&world, world.now + 100);
    assert_why(&world, second, "has 10.0 slot-minutes, and 10.0 of them are set aside for runs before it");
    pass(&world, world.now + 10 * SECOND);
    assert_int_equal(state_of(&world, first), RUN_RUNNING);
    check_ledger(&world);
    close_world(&world);
}

static void a_hold_that_is_used_up_ends_at_a_checkpoint(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    give_budget(&world, 1440, 10000, 30); /* half an hour, and a minute more each minute */
    int64_t run = give(&world, 1, 1, ",\"preemptible\":true,\"time_limit\":\"10h\"", 2 * HOUR);
    pass(&world, BEGIN + 29 * MINUTE);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    pass(&world, BEGIN + 6 * HOUR);
    assert_true(has_event(&world, run, RUN_CAUSE_BUDGET_END));
    assert_true(has_event(&world, run, RUN_CAUSE_VACATED));
    assert_false(has_event(&world, run, RUN_CAUSE_TIME_LIMIT));
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_true(world.attempts[run] > 1);
    /* What it ran beyond its holds (the seconds of writing a checkpoint) was the platform's. */
    int64_t spent = budget_of(&world).spent, attempts = run_of(world.registry, run).epoch;
    assert_true(spent > 2 * HOUR - attempts * 3 * SECOND && spent <= 2 * HOUR + attempts * 3 * SECOND);
    check_ledger(&world);
    close_world(&world);
}

/* A run without checkpoints would lose all: it begins with what its time limit needs, or not at all. */
static void a_run_without_checkpoints_needs_all_of_it(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    give_budget(&world, 0, 0, 59);
    int64_t whole = give(&world, 1, 1, ",\"time_limit\":\"1h\"", HOUR / 2);
    int64_t some = give(&world, 1, 1, ",\"time_limit\":\"1h\",\"preemptible\":true", HOUR / 2);
    pass(&world, BEGIN + SECOND);
    assert_int_equal(state_of(&world, whole), RUN_QUEUED);
    assert_int_equal(state_of(&world, some), RUN_RUNNING);
    close_world(&world);
}

static void failures_of_the_platform_cost_nothing(void **state)
{
    struct world world;
    open_world(&world, 2, 8);
    give_budget(&world, 0, 0, 10000);
    int64_t run = give(&world, 1, 8, ",\"time_limit\":\"10h\"", 2 * HOUR);
    pass(&world, BEGIN + HOUR);
    struct registry_node *nodes;
    size_t count;
    assert_int_equal(registry_nodes(world.registry, run, 1, &nodes, &count, NULL), WEFT_OK);
    assert_true(engine_simulated_fail(world.engine, nodes[0].host, "its power supply"));
    CHANGE(world.registry, registry_host_drain(world.registry, nodes[0].host, "root", "", world.now, &error));
    free(nodes);
    assert_int_equal(controller_hosts_changed(world.controller, NULL), WEFT_OK);
    pass(&world, world.now + 2 * SECOND);
    assert_true(has_event(&world, run, RUN_CAUSE_NODE_LOST));
    assert_int_equal(budget_of(&world).spent, 0);
    pass(&world, BEGIN + 5 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_true(budget_of(&world).spent > 8 * HOUR - MINUTE && budget_of(&world).spent < 8 * HOUR + MINUTE);
    check_ledger(&world);
    close_world(&world);
}

/* It is asked to stop when its program runs, and the word that it does is still on its way. */
static void what_is_stopped_before_its_start_was_heard_is_charged(void **state)
{
    struct world world;
    struct error error = {0};
    open_world(&world, 2, 4);
    give_budget(&world, 0, 0, 1000);
    int64_t run = give(&world, 2, 4, ",\"time_limit\":\"1h\"", HOUR / 2);
    pass(&world, BEGIN + 5);
    assert_int_equal(state_of(&world, run), RUN_STARTING);
    world.now = BEGIN + 3 * SECOND; /* it has run since the 10th millisecond */
    engine_simulated_advance(world.engine, (uint64_t)world.now);
    assert_int_equal(controller_cancel(world.controller, run, "ada", world.now, &error), WEFT_OK);
    pass(&world, BEGIN + MINUTE);
    struct registry_run row = run_of(world.registry, run);
    assert_int_equal(row.state, RUN_CANCELLED);
    assert_int_equal(row.started, BEGIN + 10);
    assert_int_equal(row.ended, BEGIN + 5 * SECOND); /* a program takes 2 s to end */
    assert_int_equal(budget_of(&world).spent, 8 * (5 * SECOND - 10));
    /* One that never ran costs nothing. */
    run = give(&world, 2, 4, ",\"time_limit\":\"1h\"", HOUR / 2);
    pass(&world, world.now + 5);
    assert_int_equal(controller_cancel(world.controller, run, "ada", world.now, &error), WEFT_OK);
    pass(&world, BEGIN + 2 * MINUTE);
    assert_int_equal(state_of(&world, run), RUN_CANCELLED);
    assert_int_equal(run_of(world.registry, run).started, 0);
    assert_int_equal(budget_of(&world).spent, 8 * (5 * SECOND - 10));
    check_ledger(&world);
    close_world(&world);
}

/* A project without a budget is not limited, and what it uses is counted. */
static void what_is_not_limited_is_counted(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    int64_t run = give(&world, 1, 8, ",\"time_limit\":\"10h\"", HOUR);
    pass(&world, BEGIN + 2 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_int_equal(budget_of(&world).spent, 8 * HOUR);
    check_ledger(&world);
    close_world(&world);
}

/* ---- whenever it dies ---- */

/* An engine that stands before another one, and fails when told to: the controller dies in the midst of a step. */
struct faulty {
    struct engine engine; /* first */
    struct engine *behind;
    uint64_t seed, calls;
    bool off;
};

static weft_status fault(struct engine *engine, uint64_t one_in, struct error *error)
{
    struct faulty *faulty = (struct faulty *)engine;
    bool fails = !faulty->off && random_below(faulty->seed, faulty->calls++, one_in) == 0;
    return fails ? error_set(error, WEFT_ERROR_MEMORY, "a test") : WEFT_OK;
}

#define BEHIND ((struct faulty *)engine)->behind

static weft_status faulty_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    weft_status status = fault(engine, 5, error); /* before it is done, or after it */
    if (status == WEFT_OK)
        status = BEHIND->start(BEHIND, order, error);
    return status == WEFT_OK ? fault(engine, 5, error) : status;
}

static weft_status faulty_stop(struct engine *engine, const struct attempt *attempt, enum engine_end how,
                               uint64_t grace, struct error *error)
{
    weft_status status = BEHIND->stop(BEHIND, attempt, how, grace, error);
    return status == WEFT_OK ? fault(engine, 5, error) : status;
}

static weft_status faulty_poll(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                               engine_record_visit *visit, void *context, struct error *error)
{
    weft_status status = BEHIND->poll(BEHIND, attempt, node, after, visit, context, error);
    return status == WEFT_OK ? fault(engine, 1000, error) : status;
}

static weft_status faulty_gone(struct engine *engine, const struct attempt *attempt, uint32_t node, bool kill,
                               bool *gone, struct error *error)
{
    return BEHIND->gone(BEHIND, attempt, node, kill, gone, error);
}

static weft_status faulty_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    return BEHIND->hosts(BEHIND, visit, context, error);
}

/* As pass(), with a new controller wherever a step has failed. How many there were. */
static unsigned pass_and_die(struct world *world, int64_t moment)
{
    unsigned deaths = 0;
    while (world->now <= moment) {
        struct error error = {0};
        int64_t next = world->now;
        engine_simulated_advance(world->config.context, (uint64_t)world->now);
        if (controller_step(world->controller, world->now, &next, &error) != WEFT_OK) {
            assert_string_equal(error.text, "a test");
            check_ledger(world);
            controller_close(world->controller);
            open_controller(world);
            check_ledger(world);
            deaths++;
            continue;
        }
        uint64_t happens = engine_simulated_next(world->config.context);
        if (happens != UINT64_MAX && (int64_t)happens < next)
            next = (int64_t)happens;
        world->now = next > world->now ? next : world->now + 1;
    }
    world->now = moment;
    return deaths;
}

/* Runs come, hosts fail, managers grant, and controllers die in any step: nothing is lost or counted twice. */
static void die_whenever(uint64_t seed)
{
    struct world world;
    uint64_t n = 0;
    unsigned deaths = 0;
#define DRAW(bound) random_below(seed, n++, bound)
    prepare_world(&world, 3, 4);
    struct faulty faulty = {.engine = {.name = "faulty",
                                       .descriptor = -1,
                                       .start = faulty_start,
                                       .stop = faulty_stop,
                                       .poll = faulty_poll,
                                       .gone = faulty_gone,
                                       .hosts = faulty_hosts},
                            .behind = world.engine,
                            .seed = seed + 1000};
    world.config.engine = &faulty.engine;
    world.config.context = world.engine;
    open_controller(&world);
    give_budget(&world, 1440 * 6, 20000, 500);
    int64_t runs[40];
    size_t count = 0;
    for (int event = 0; event < 60; event++) {
        uint64_t what = DRAW(8);
        if (what < 5 && count < 40) {
            static const char *const more[] = {",\"time_limit\":\"2h\",\"preemptible\":true", ",\"time_limit\":\"90m\"",
                                               ",\"time_limit\":\"3h\",\"preemptible\":true,\"time_slice\":\"1h\""};
            int64_t nodes = 1 + (int64_t)DRAW(2), slots = 1 + (int64_t)DRAW(4);
            const char *owner = DRAW(2) ? "ada" : "bob", *kind = more[DRAW(3)];
            int64_t takes = (int64_t)DRAW(50) * MINUTE;
            runs[count++] = give_to(&world, "vision", owner, nodes, slots, kind, takes);
        } else if (what == 5) {
            bool fails = DRAW(2);
            engine_simulated_fail(world.engine, DRAW(2) ? "h1" : "h2", fails ? "a test" : NULL);
        } else if (what == 6 && count) {
            struct error refusal;
            controller_cancel(world.controller, runs[DRAW(count)], "ada", world.now, &refusal);
        } else {
            give_budget(&world, 1440 * 6, 20000, (double)DRAW(2000));
        }
        int64_t longest = DRAW(2) ? 10 * SECOND : HOUR / 2;
        deaths += pass_and_die(&world, world.now + (int64_t)DRAW((uint64_t)longest));
        check_ledger(&world);
    }
    faulty.off = true;
    for (int h = 1; h < 3; h++) {
        struct registry_host found;
        char host[8];
        snprintf(host, sizeof host, "h%d", h);
        engine_simulated_fail(world.engine, host, NULL);
        assert_int_equal(registry_host_get(world.registry, host, &found, NULL), WEFT_OK);
        if (found.state != REGISTRY_HOST_UP)
            CHANGE(world.registry, registry_host_resume(world.registry, host, "root", world.now, &error));
    }
    assert_int_equal(controller_hosts_changed(world.controller, NULL), WEFT_OK);
    size_t ended = 0;
    for (int hour = 0; hour < 100 && ended < count; hour++) {
        deaths += pass_and_die(&world, world.now + HOUR);
        for (ended = 0; ended < count && run_state_is_final(state_of(&world, runs[ended]));)
            ended++;
    }
    assert_true(deaths > 10);
    for (size_t i = 0; i < count; i++) {
        struct registry_run run = run_of(world.registry, runs[i]);
        if (!run_state_is_final(run.state)) {
            char why[512];
            assert_int_equal(controller_why(world.controller, runs[i], world.now, why, sizeof why, NULL), WEFT_OK);
            fail_msg("seed %" PRIu64 ": run %" PRId64 " is still %s: %s", seed, runs[i], run_state_name(run.state),
                     why);
        }
    }
    check_ledger(&world);
    assert_int_equal(budget_of(&world).held, 0);
    close_world(&world);
#undef DRAW
}

static void the_sums_are_right_whenever_it_dies(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        die_whenever(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_held_is_charged_as_far_as_it_was_used),
        cmocka_unit_test(who_cannot_pay_waits_until_enough_has_accrued),
        cmocka_unit_test(the_moment_it_has_accrued_is_the_moment_it_starts),
        cmocka_unit_test(who_has_enough_starts_without_an_accrual),
        cmocka_unit_test(what_has_accrued_is_there_at_once),
        cmocka_unit_test(a_grant_starts_at_once_what_it_pays_for),
        cmocka_unit_test(a_member_has_what_was_handed_on),
        cmocka_unit_test(what_waits_for_slots_keeps_what_it_needs),
        cmocka_unit_test(what_has_its_slots_keeps_what_it_needs),
        cmocka_unit_test(a_hold_that_is_used_up_ends_at_a_checkpoint),
        cmocka_unit_test(a_run_without_checkpoints_needs_all_of_it),
        cmocka_unit_test(failures_of_the_platform_cost_nothing),
        cmocka_unit_test(what_is_stopped_before_its_start_was_heard_is_charged),
        cmocka_unit_test(what_is_not_limited_is_counted),
        cmocka_unit_test(the_sums_are_right_whenever_it_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
