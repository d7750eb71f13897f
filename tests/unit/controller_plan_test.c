/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of the queue: everybody who waits is in it once, in the order in which they start, with a reason; and it is
 * the same one until something changes. */
#include "base/random.h"
#include "controller_support.h"

static const struct controller_plan *plan_of(struct world *world)
{
    const struct controller_plan *plan;
    struct error error = {0};
    if (controller_plan(world->controller, world->now, &plan, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return plan;
}

/* All that waits or runs is in the plan once, and nothing else; each that waits can say why. */
static void check_plan(struct world *world, const int64_t *runs, size_t count)
{
    const struct controller_plan *plan = plan_of(world);
    size_t waiting = 0, running = 0;
    for (size_t i = 0; i < count; i++) {
        struct registry_run run = run_of(world->registry, runs[i]);
        unsigned found_waiting = 0, found_running = 0;
        for (size_t k = 0; k < plan->waiting_count; k++)
            found_waiting += plan->waiting[k].run == runs[i];
        for (size_t k = 0; k < plan->running_count; k++)
            found_running += plan->running[k].run == runs[i];
        assert_int_equal(found_waiting, run_state_is_waiting(run.state));
        assert_int_equal(found_running, run_state_is_active(run.state));
        waiting += found_waiting;
        running += found_running;
    }
    assert_int_equal(plan->waiting_count, waiting);
    assert_int_equal(plan->running_count, running);
    for (size_t k = 0; k < plan->waiting_count; k++) {
        const struct controller_plan_run *entry = &plan->waiting[k];
        char reason[512], why[512];
        controller_plan_reason(world->controller, entry, true, world->now, reason, sizeof reason);
        assert_true(strlen(reason) > 20);
        assert_int_equal(controller_why(world->controller, entry->run, world->now, why, sizeof why, NULL), WEFT_OK);
        assert_string_equal(why, reason);
        assert_true(entry->expected_start == 0 || entry->expected_start >= BEGIN);
    }
}

static void those_who_wait_are_in_the_order_of_their_start(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    CHANGE(world.registry, ledger_budget_put(world.registry, "speech", 0, 0, true, world.now, &error));
    int64_t runs[5];
    runs[0] = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + SECOND);
    for (int i = 1; i < 4; i++)
        runs[i] = give(&world, 1, 1, "", HOUR);
    runs[4] = give_to(&world, "speech", "carl", 1, 1, "", HOUR);
    pass(&world, BEGIN + 2 * SECOND);
    const struct controller_plan *plan = plan_of(&world);
    check_plan(&world, runs, 5);
    assert_int_equal(plan->running[0].run, runs[0]);
    assert_int_equal(plan->running[0].ends_before, BEGIN + 10 + 30 * 24 * HOUR);
    assert_string_equal(plan->waiting[0].project, "vision");
    assert_string_equal(plan->waiting[0].owner, "ada");
    assert_int_equal(plan->waiting[0].since, BEGIN + SECOND);
    assert_int_equal(plan->waiting[3].run, runs[4]); /* it cannot pay: last */
    assert_int_equal(plan->waiting[3].waits, CONTROLLER_WAITS_FOR_BUDGET);
    assert_int_equal(plan->waiting[3].expected_start, 0);
    int64_t order[3];
    for (int i = 0; i < 3; i++) {
        order[i] = plan->waiting[i].run;
        assert_int_equal(plan->waiting[i].waits, CONTROLLER_WAITS_FOR_SLOTS);
        assert_true(i == 0 || plan->waiting[i].expected_start >= plan->waiting[i - 1].expected_start);
    }
    pass(&world, BEGIN + 20 * HOUR);
    for (int i = 1; i < 3; i++)
        assert_true(run_of(world.registry, order[i]).started > run_of(world.registry, order[i - 1]).started);
    close_world(&world);
}

static void it_is_made_once_for_a_state(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    int64_t runs[3] = {give(&world, 1, 1, "", HOUR), give(&world, 1, 1, "", HOUR)};
    pass(&world, BEGIN + 2 * SECOND);
    const struct controller_plan_run *first = plan_of(&world)->waiting;
    assert_ptr_equal(plan_of(&world)->waiting, first);
    pass(&world, BEGIN + 5 * SECOND); /* steps in which nothing happens */
    assert_ptr_equal(plan_of(&world)->waiting, first);
    /* One that has just come is in it before a pass has seen it, after the others. */
    runs[2] = give(&world, 1, 1, "", HOUR);
    const struct controller_plan *plan = plan_of(&world);
    assert_int_equal(plan->waiting_count, 2);
    assert_int_equal(plan->waiting[0].waits, CONTROLLER_WAITS_FOR_SLOTS);
    assert_int_equal(plan->waiting[1].run, runs[2]);
    assert_int_equal(plan->waiting[1].waits, CONTROLLER_WAITS_FOR_PASS);
    check_plan(&world, runs, 3);
    pass(&world, BEGIN + 6 * SECOND);
    assert_int_equal(plan_of(&world)->waiting[1].waits, CONTROLLER_WAITS_FOR_SLOTS);
    close_world(&world);
}

/* When a run that is the only one to wait is expected. */
static int64_t expected(struct world *world)
{
    const struct controller_plan *plan = plan_of(world);
    assert_int_equal(plan->waiting_count, 1);
    return plan->waiting[0].expected_start;
}

/* What a person's runs took in a project is known of the next one of them, by a controller that was not there too. */
static void what_runs_took_is_known_after_a_restart(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    const int64_t quick = MINUTE, slow = HOUR;
    for (int i = 0; i < 24; i++) {
        int64_t run = give_to(&world, "vision", i % 2 ? "ada" : "bob", 1, 1, "", i % 2 ? quick : slow);
        world.code[run] = i % 8 == 1; /* a program that fails has come to its end too */
        pass(&world, world.now + (i % 2 ? quick : slow) + MINUTE);
        assert_int_equal(state_of(&world, run), i % 8 == 1 ? RUN_FAILED : RUN_SUCCEEDED);
    }
    int64_t starts[2][2]; /* whose, and by which controller */
    for (int who = 0; who < 2; who++) {
        int64_t runs = give_to(&world, "vision", who ? "ada" : "bob", 1, 1, "", slow);
        pass(&world, world.now + SECOND);
        int64_t waits = give(&world, 1, 1, "", HOUR);
        pass(&world, world.now + SECOND);
        starts[who][0] = expected(&world) - world.now;
        controller_close(world.controller);
        open_controller(&world);
        pass(&world, world.now + SECOND);
        starts[who][1] = expected(&world) - world.now;
        struct error error = {0};
        const int64_t both[] = {waits, runs};
        for (int i = 0; i < 2; i++)
            assert_int_equal(controller_cancel(world.controller, both[i], "root", world.now, &error), WEFT_OK);
        pass(&world, world.now + MINUTE);
    }
    assert_true(starts[0][0] > 30 * MINUTE && starts[1][0] < 15 * MINUTE);
    for (int who = 0; who < 2; who++)
        assert_in_range(starts[who][1], starts[who][0] - starts[who][0] / 20, starts[who][0] + starts[who][0] / 20);
    close_world(&world);
}

/* Nobody is expected to run for longer than they may. */
static void a_limit_bounds_what_is_expected(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    give(&world, 1, 1, ",\"time_limit\":\"5m\"", HOUR);
    pass(&world, BEGIN + SECOND);
    give(&world, 1, 1, ",\"time_limit\":\"3m\"", HOUR);
    int64_t last = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + 2 * SECOND);
    const struct controller_plan *plan = plan_of(&world);
    assert_int_equal(plan->waiting_count, 2);
    assert_int_equal(plan->waiting[1].run, last);
    assert_in_range(plan->waiting[0].expected_start, BEGIN + 5 * MINUTE, BEGIN + 5 * MINUTE + SECOND);
    assert_in_range(plan->waiting[1].expected_start, BEGIN + 8 * MINUTE, BEGIN + 8 * MINUTE + SECOND);
    close_world(&world);
}

/* What somebody stops ends when its grace period is over, whatever others took; also for a controller that comes then.
 */
static void who_was_told_to_end_is_expected_to(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    int64_t runs = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + 2 * MINUTE);
    assert_true(expected(&world) > world.now + MINUTE);
    assert_int_equal(controller_cancel(world.controller, runs, "root", world.now, NULL), WEFT_OK);
    pass(&world, world.now + SECOND / 2);
    assert_in_range(expected(&world), world.now, world.now + 30 * SECOND);
    controller_close(world.controller);
    open_controller(&world);
    pass(&world, world.now + SECOND / 2);
    assert_in_range(expected(&world), world.now, world.now + 30 * SECOND);
    close_world(&world);
}

/* Runs of all kinds come, and wait for all kinds of things; people cancel; controllers die. */
static void whatever_comes_is_in_it_once(void **state)
{
    static const struct controller_class classes[] = {{.name = "batch", .runs_most = 4}, {.name = ""}};
    struct world world;
    uint64_t n = 0;
#define DRAW(bound) random_below(7, n++, bound)
    prepare_world(&world, 2, 4);
    world.config.personal_share = 0.25;
    world.config.personal_runs_most = 1;
    world.config.classes = classes;
    world.config.class_count = 2;
    CHANGE(world.registry, registry_project_personal(world.registry, "bob", world.now, &error));
    CHANGE(world.registry,
           ledger_budget_put(world.registry, "speech", 1440 * MINUTE, 1000 * MINUTE, true, world.now, &error));
    open_controller(&world);
    int64_t runs[120];
    size_t count = 0;
    unsigned kinds[6] = {0};
    while (count < 120) {
        static const char *const projects[] = {"vision", "speech", "bob"}, *const owners[] = {"ada", "carl", "bob"};
        uint64_t project = DRAW(3), preemptible = DRAW(2), other = DRAW(2);
        char more[128];
        snprintf(more, sizeof more, ",\"time_limit\":\"1h\"%s%s", preemptible ? ",\"preemptible\":true" : "",
                 other ? ",\"class\":\"other\"" : "");
        int64_t slots = project == 2 ? 1 : 1 + (int64_t)DRAW(3), takes = (int64_t)DRAW(60) * MINUTE;
        runs[count++] = give_to(&world, projects[project], owners[project], 1, slots, more, takes);
        if (DRAW(10) == 0)
            controller_cancel(world.controller, runs[DRAW(count)], "root", world.now, &(struct error){0});
        if (DRAW(20) == 0) {
            controller_close(world.controller);
            open_controller(&world);
        }
        check_plan(&world, runs, count);
        int64_t longest = DRAW(2) ? SECOND : 20 * MINUTE;
        pass(&world, world.now + (int64_t)DRAW((uint64_t)longest));
        check_plan(&world, runs, count);
        for (size_t i = 0; i < plan_of(&world)->waiting_count; i++)
            kinds[plan_of(&world)->waiting[i].waits]++;
    }
    assert_true(kinds[CONTROLLER_WAITS_FOR_SLOTS] && kinds[CONTROLLER_WAITS_FOR_BUDGET] &&
                kinds[CONTROLLER_WAITS_FOR_CLASS] && kinds[CONTROLLER_WAITS_FOR_PERSONAL]);
    close_world(&world);
#undef DRAW
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_wait_are_in_the_order_of_their_start),
        cmocka_unit_test(it_is_made_once_for_a_state),
        cmocka_unit_test(what_runs_took_is_known_after_a_restart),
        cmocka_unit_test(a_limit_bounds_what_is_expected),
        cmocka_unit_test(who_was_told_to_end_is_expected_to),
        cmocka_unit_test(whatever_comes_is_in_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
