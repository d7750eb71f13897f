/* SPDX-License-Identifier: Apache-2.0 */
/* The clock is set back by hours: what was due soon is not due in hours. It is set forward: nobody pays for
 * hours that did not pass. */
#include "controller_support.h"
#include "platform/controller/internal/state.h"
#include "platform/service/internal/clock_watch.h"

/* Let time pass by a clock that is `behind` that of the engine. */
static void pass_behind(struct world *world, int64_t behind, int64_t takes, int64_t pace)
{
    struct error error = {0};
    int64_t next;
    for (const int64_t end = world->now + takes; world->now <= end; world->now += pace) {
        engine_simulated_advance(world->engine, (uint64_t)(world->now + behind));
        if (controller_step(world->controller, world->now, &next, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_true(next <= world->now + MINUTE);
    }
}

static void a_time_slice_is_no_longer(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    int64_t sliced = give(&world, 1, 1, ",\"time_slice\":\"2h\"", 30 * HOUR);
    pass(&world, BEGIN + HOUR);
    int64_t other = give(&world, 1, 1, "", HOUR);
    world.now -= 5 * HOUR;
    pass_behind(&world, 5 * HOUR, 2 * HOUR + 2 * MINUTE, MINUTE / 2);
    assert_true(has_event(&world, sliced, RUN_CAUSE_SLICE_END));
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    close_world(&world);
}

static weft_status refuse_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    return error_set(error, WEFT_ERROR_SYSTEM, "not yet");
}

static void what_is_tried_again_is_tried_soon(void **state)
{
    struct world world;
    prepare_world(&world, 1, 2);
    weft_status (*start)(struct engine * engine, const struct engine_order *order, struct error *error) =
        world.engine->start;
    world.engine->refuses_for_all = true;
    world.engine->start = refuse_start;
    open_controller(&world);
    int64_t run = give(&world, 1, 2, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(state_of(&world, run), RUN_PLACED);
    world.engine->start = start;
    world.now -= 5 * HOUR;
    pass_behind(&world, 5 * HOUR, 3 * SECOND, SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    close_world(&world);
}

static void passes_go_on(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    give(&world, 1, 1, "", 30 * HOUR);
    give(&world, 1, 1, "", HOUR); /* it waits */
    pass(&world, BEGIN + MINUTE);
    world.now -= 5 * HOUR;
    pass_behind(&world, 5 * HOUR, 2 * MINUTE, SECOND);
    assert_in_range(world.now - world.controller->passed_at, 0, 32 * SECOND);
    assert_in_range(world.now - world.controller->accrued_at, 0, 62 * SECOND);
    close_world(&world);
}

/* ---- forward ---- */

#define AHEAD (5 * HOUR)

/* Journals are written by the clock that was set; the simulated engine has its own. */
static int64_t ahead;
static bool deaf; /* nothing is heard of nodes */
static weft_status (*plain_poll)(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                                 engine_record_visit *visit, void *context, struct error *error);

struct dated {
    engine_record_visit *visit;
    void *context;
};

static bool visit_dated(void *context, const struct journal_record *record)
{
    const struct dated *dated = context;
    struct journal_record later = *record;
    later.time += (uint64_t)ahead * 1000;
    return dated->visit(dated->context, &later);
}

static weft_status dated_poll(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                              engine_record_visit *visit, void *context, struct error *error)
{
    struct dated dated = {visit, context};
    if (deaf)
        return WEFT_OK;
    return plain_poll(engine, attempt, node, after, visit_dated, &dated, error);
}

static void open_dated(struct world *world, uint32_t slots)
{
    prepare_world(world, 1, slots);
    ahead = 0;
    plain_poll = world->engine->poll;
    world->engine->poll = dated_poll;
    open_controller(world);
}

static void set_clock(struct world *world, int64_t by)
{
    struct error error = {0};
    ahead += by;
    world->now += by;
    if (controller_shift_clock(world->controller, by, world->now, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void set_forward(struct world *world)
{
    set_clock(world, AHEAD);
}

/* Of the project 'vision', in slot-minutes. */
static int64_t minutes_spent(struct world *world)
{
    struct ledger_budget budget;
    assert_int_equal(ledger_budget_get(world->registry, "vision", 0, &budget, NULL), WEFT_OK);
    return budget.spent / LEDGER_SLOT_MINUTE;
}

/* Runs of an hour from before, between and after the two steps, in either order. */
static void a_step_that_is_corrected_leaves_no_charge(void **state)
{
    for (int direction = -1; direction <= 1; direction += 2) {
        struct world world;
        open_dated(&world, 2);
        int64_t before = give(&world, 1, 1, "", HOUR);
        pass_behind(&world, -ahead, HOUR / 2, SECOND);
        set_clock(&world, direction * AHEAD);
        int64_t between = give(&world, 1, 1, "", HOUR);
        pass_behind(&world, -ahead, HOUR / 4, SECOND);
        set_clock(&world, -direction * AHEAD);
        pass_behind(&world, -ahead, HOUR / 2, SECOND);
        int64_t after = give(&world, 1, 1, "", HOUR);
        pass_behind(&world, -ahead, HOUR + MINUTE, SECOND);
        const int64_t runs[] = {before, between, after};
        for (size_t i = 0; i < 3; i++) {
            const struct registry_run found = run_of(world.registry, runs[i]);
            assert_int_equal(found.state, RUN_SUCCEEDED);
            assert_in_range(found.served, HOUR - 3 * SECOND, HOUR + 3 * SECOND);
        }
        assert_in_range(minutes_spent(&world), 179, 181);
        check_ledger(&world);
        close_world(&world);
    }
}

/* That the run ended is read after the clock was set: its node wrote that down by the clock of before. */
static void what_a_node_wrote_before_a_step_is_of_before(void **state)
{
    struct world world;
    open_dated(&world, 1);
    int64_t run = give(&world, 1, 1, "", HOUR);
    pass_behind(&world, -ahead, HOUR / 2, SECOND);
    deaf = true;
    pass_behind(&world, -ahead, HOUR / 2 + 2 * SECOND, SECOND);
    world.now += AHEAD;
    assert_int_equal(controller_shift_clock(world.controller, AHEAD, world.now, NULL), WEFT_OK);
    deaf = false;
    pass_behind(&world, -AHEAD, SECOND, SECOND);
    const struct registry_run found = run_of(world.registry, run);
    assert_int_equal(found.state, RUN_SUCCEEDED);
    assert_in_range(found.served, HOUR - 3 * SECOND, HOUR + 3 * SECOND);
    close_world(&world);
}

static void budgets_do_not_accrue_by_a_wrong_clock(void **state)
{
    struct world world;
    struct ledger_budget budget;
    open_dated(&world, 1);
    CHANGE(world.registry, ledger_budget_put(world.registry, "vision", 24 * 60 * LEDGER_SLOT_MINUTE,
                                             9999 * LEDGER_SLOT_MINUTE, true, world.now, &error));
    set_forward(&world);
    pass_behind(&world, -ahead, HOUR, MINUTE);
    set_clock(&world, -AHEAD);
    pass_behind(&world, -ahead, HOUR, MINUTE);
    assert_int_equal(ledger_budget_get(world.registry, "vision", world.now, &budget, NULL), WEFT_OK);
    assert_in_range(budget.pool, 118 * LEDGER_SLOT_MINUTE, 123 * LEDGER_SLOT_MINUTE);
    close_world(&world);
}

static void nobody_pays_for_time_that_did_not_pass(void **state)
{
    for (int restart = 0; restart < 2; restart++) {
        struct world world;
        struct ledger_budget budget;
        open_dated(&world, 2);
        CHANGE(world.registry, ledger_budget_put(world.registry, "vision", 0, 0, true, world.now, &error));
        CHANGE(world.registry,
               ledger_grant(world.registry, "vision", 90 * LEDGER_SLOT_MINUTE, "root", "", world.now, &error));
        /* It holds less than its limit needs: it would be stopped if it were taken to have run for hours. */
        int64_t run = give(&world, 1, 1, ",\"preemptible\":true,\"time_limit\":\"10h\"", HOUR);
        pass_behind(&world, -ahead, HOUR / 2, SECOND);
        assert_int_equal(state_of(&world, run), RUN_RUNNING);
        set_forward(&world);
        if (restart) {
            controller_close(world.controller);
            open_controller(&world);
        }
        pass_behind(&world, -ahead, HOUR / 2 + MINUTE, SECOND);
        struct registry_run found = run_of(world.registry, run);
        assert_int_equal(found.state, RUN_SUCCEEDED);
        assert_int_equal(found.epoch, 1);
        assert_in_range(found.served, HOUR - SECOND, HOUR + 3 * SECOND);
        assert_int_equal(ledger_budget_get(world.registry, "vision", 0, &budget, NULL), WEFT_OK);
        assert_in_range(budget.spent, 59 * LEDGER_SLOT_MINUTE, 61 * LEDGER_SLOT_MINUTE);
        check_ledger(&world);
        close_world(&world);
    }
}

static void a_time_slice_is_as_long_as_it_was(void **state)
{
    struct world world;
    open_dated(&world, 1);
    int64_t sliced = give(&world, 1, 1, ",\"time_slice\":\"2h\"", 30 * HOUR), other;
    pass_behind(&world, -ahead, HOUR, 10 * SECOND);
    other = give(&world, 1, 1, "", HOUR);
    set_forward(&world);
    pass_behind(&world, -ahead, 50 * MINUTE, 10 * SECOND);
    assert_false(has_event(&world, sliced, RUN_CAUSE_SLICE_END));
    pass_behind(&world, -ahead, 12 * MINUTE, 10 * SECOND);
    assert_true(has_event(&world, sliced, RUN_CAUSE_SLICE_END));
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    close_world(&world);
}

static void a_pause_is_as_long_as_it_was(void **state)
{
    struct world world;
    open_dated(&world, 1);
    int64_t run = give(&world, 1, 1, ",\"retries\":9", 100);
    world.code[run] = 3;
    pass_behind(&world, -ahead, 10 * SECOND, 100); /* in the pause of 8 seconds */
    const int attempts = world.attempts[run];
    set_forward(&world);
    pass_behind(&world, -ahead, 2 * SECOND, 100);
    assert_int_equal(world.attempts[run], attempts);
    assert_int_equal(state_of(&world, run), RUN_REQUEUED);
    pass_behind(&world, -ahead, 8 * SECOND, 100);
    assert_int_equal(world.attempts[run], attempts + 1);
    close_world(&world);
}

static void a_clock_that_is_set_is_noticed(void **state)
{
    struct clock_watch watch = {0};
    assert_int_equal(clock_watch_look(&watch, 100, 5000100, 100), 0); /* as far ahead as that was always so */
    assert_int_equal(clock_watch_look(&watch, 60100, 5060105, 60101), 0);
    assert_int_equal(clock_watch_look(&watch, 61100, 5361104, 61101), 300003);
    assert_int_equal(clock_watch_look(&watch, 62100, 5362104, 62101), 0);
    /* Between two looks something else ran: another look tells. */
    assert_int_equal(clock_watch_look(&watch, 63100, 5369104, 69100), 0);
    assert_int_equal(clock_watch_look(&watch, 70100, 5370104, 70101), 0);
    /* Back, and slowly on. */
    assert_int_equal(clock_watch_look(&watch, 71100, 1371104, 71101), -4000000);
    assert_int_equal(clock_watch_look(&watch, 72100, 1372504, 72101), 0);
    assert_int_equal(clock_watch_look(&watch, 73100, 1373904, 73101), 0);
    assert_int_equal(clock_watch_look(&watch, 74100, 1375304, 74101), 1200); /* together they are worth it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_slice_is_no_longer),
        cmocka_unit_test(what_is_tried_again_is_tried_soon),
        cmocka_unit_test(passes_go_on),
        cmocka_unit_test(nobody_pays_for_time_that_did_not_pass),
        cmocka_unit_test(a_time_slice_is_as_long_as_it_was),
        cmocka_unit_test(a_pause_is_as_long_as_it_was),
        cmocka_unit_test(a_step_that_is_corrected_leaves_no_charge),
        cmocka_unit_test(what_a_node_wrote_before_a_step_is_of_before),
        cmocka_unit_test(budgets_do_not_accrue_by_a_wrong_clock),
        cmocka_unit_test(a_clock_that_is_set_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
