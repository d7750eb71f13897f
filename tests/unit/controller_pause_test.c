/* SPDX-License-Identifier: Apache-2.0 */
/* The re-run after a failure comes after a backoff that grows; runs that have not failed have none. */
#include "controller_support.h"
#include "platform/controller/internal/state.h"

/* Milliseconds from the end of attempt `epoch` of a run to where the next one was placed. */
static int64_t pause_behind(struct world *world, int64_t run, int64_t epoch)
{
    struct registry_attempt *list;
    size_t count;
    assert_int_equal(registry_attempts(world->registry, run, &list, &count, NULL), WEFT_OK);
    assert_true((int64_t)count > epoch);
    const int64_t pause = list[epoch].placed - list[epoch - 1].ended;
    free(list);
    return pause;
}

static const struct controller_plan_run *planned(struct world *world, int64_t run)
{
    const struct controller_plan *plan;
    assert_int_equal(controller_plan(world->controller, world->now, &plan, NULL), WEFT_OK);
    for (size_t i = 0; i < plan->waiting_count; i++)
        if (plan->waiting[i].run == run)
            return &plan->waiting[i];
    fail_msg("run %" PRId64 " does not wait", run);
    return NULL;
}

/* So many seconds are between the attempts of a run, and the milliseconds after which an end is `heard`. */
static void assert_pauses(struct world *world, int64_t run, const int64_t *seconds, size_t count, int64_t heard)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t pause = pause_behind(world, run, (int64_t)i + 1);
        assert_in_range(pause, seconds[i] * SECOND, seconds[i] * SECOND + heard);
    }
}

static void a_program_s_failures_are_further_and_further_apart(void **state)
{
    static const int64_t pauses[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
    struct world world;
    open_world(&world, 2, 8);
    int64_t run = give(&world, 1, 1, ",\"retries\":9", 100);
    world.code[run] = 3;
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, run), RUN_FAILED);
    assert_int_equal(world.attempts[run], 10);
    assert_pauses(&world, run, pauses, 9, 50);
    close_world(&world);
}

static void whoever_asks_is_told_how_long_and_why(void **state)
{
    struct world world;
    char text[512];
    open_world(&world, 1, 8);
    int64_t run = give(&world, 1, 1, ",\"retries\":9", 100), other = give(&world, 1, 1, "", HOUR);
    world.code[run] = 3;
    pass(&world, BEGIN + 500);
    assert_why(&world, run, "waits 1 s before it is tried again, because it has failed: its program ended with exit");
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    pass(&world, BEGIN + 1500);
    assert_why(&world, run,
               "waits 2 s before it is tried again, because it has failed 2 times, last: its program ended");
    assert_int_equal(planned(&world, run)->waits, CONTROLLER_WAITS_FOR_PAUSE);
    /* Who may not see its project is not told how. */
    assert_string_equal(
        controller_plan_reason(world.controller, planned(&world, run), false, world.now, text, sizeof text),
        "waits 2 s before it is tried again");
    pass(&world, BEGIN + HOUR);
    close_world(&world);
}

static void it_is_expected_when_its_pause_is_over_or_there_is_room(void **state)
{
    struct world world;
    open_world(&world, 1, 2);
    int64_t run = give(&world, 1, 2, ",\"retries\":9", 100);
    world.code[run] = 3;
    pass(&world, BEGIN + 500);
    const int64_t over = run_of(world.registry, run).waiting_since + SECOND;
    assert_int_equal(planned(&world, run)->expected_start, over);
    /* Somebody has its slots meanwhile, for half an hour at the longest. */
    int64_t other = give(&world, 1, 2, ",\"time_limit\":\"30m\"", HOUR / 2);
    pass(&world, BEGIN + 700);
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    assert_in_range(planned(&world, run)->expected_start, over + 10 * SECOND, BEGIN + HOUR / 2 + SECOND);
    pass(&world, BEGIN + 2 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_REQUEUED);
    assert_why(&world, run, "waits for 2 slots on one host");
    close_world(&world);
}

/* The pause of one is nobody else's: what it left is given to others at once. */
static void others_have_its_slots_meanwhile(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    int64_t run = give(&world, 1, 1, ",\"retries\":9,\"priority\":100", 100), other = give(&world, 1, 1, "", 300);
    world.code[run] = 3;
    pass(&world, BEGIN + SECOND);
    assert_int_equal(state_of(&world, other), RUN_SUCCEEDED);
    assert_int_equal(world.attempts[run], 1);
    close_world(&world);
}

static void fail_where_it_runs(struct world *world, int64_t run)
{
    struct registry_node *nodes;
    size_t count;
    assert_int_equal(state_of(world, run), RUN_RUNNING);
    assert_int_equal(registry_nodes(world->registry, run, run_of(world->registry, run).epoch, &nodes, &count, NULL),
                     WEFT_OK);
    assert_true(engine_simulated_fail(world->engine, nodes[0].host, "its power supply"));
    assert_true(engine_simulated_fail(world->engine, nodes[0].host, NULL));
    free(nodes);
}

static void a_first_failure_of_the_platform_costs_no_pause(void **state)
{
    static const int64_t pauses[] = {0, 1, 2};
    struct world world;
    open_world(&world, 4, 8);
    int64_t run = give(&world, 1, 8, "", 10 * HOUR);
    for (int i = 0; i < 3; i++) {
        pass(&world, world.now + MINUTE);
        fail_where_it_runs(&world, run);
    }
    pass(&world, world.now + SECOND);
    assert_why(&world, run, "waits 1 s before it is tried again, because the platform has failed it 3 times, last: ");
    pass(&world, world.now + MINUTE);
    assert_pauses(&world, run, pauses, 3, SECOND - 1); /* no remark blames a host */
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    close_world(&world);
}

static void who_asks_again_at_once_is_not_asked_a_thousand_times_a_minute(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    int64_t hasty = give(&world, 1, 1, "", 100), steady = give(&world, 1, 1, "", HOUR);
    world.code[hasty] = world.code[steady] = 75;
    pass(&world, BEGIN + 500);
    assert_why(&world, hasty, "waits 1 s before it is tried again, because it stopped soon after its start and asked");
    pass(&world, BEGIN + 10 * MINUTE);
    assert_in_range(world.attempts[hasty], 7, 16);
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_true(world.attempts[steady] > 1);
    assert_in_range(pause_behind(&world, steady, 1), 0, 50);
    close_world(&world);
}

static void who_gives_way_does_not_pause(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    int64_t sliced = give(&world, 1, 1, ",\"time_slice\":\"1h\",\"retries\":3", 30 * HOUR);
    world.code[sliced] = 3;
    pass(&world, BEGIN + HOUR / 2);
    int64_t other = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_true(has_event(&world, sliced, RUN_CAUSE_SLICE_END));
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    assert_int_equal(planned(&world, sliced)->waits, CONTROLLER_WAITS_FOR_SLOTS);
    pass(&world, BEGIN + 3 * HOUR);
    struct registry_run found = run_of(world.registry, other);
    assert_int_equal(found.state, RUN_SUCCEEDED);
    assert_in_range(run_of(world.registry, sliced).started, found.ended, found.ended + 200);
    close_world(&world);
}

static void another_controller_goes_on_with_the_pause(void **state)
{
    static const int64_t pauses[] = {1, 2, 4, 8, 16};
    struct world world;
    open_world(&world, 1, 1);
    int64_t run = give(&world, 1, 1, ",\"retries\":5", 100);
    world.code[run] = 3;
    for (int i = 1; i <= 400; i++) { /* every quarter of a second, in pauses and out of them */
        pass(&world, BEGIN + i * SECOND / 4);
        controller_close(world.controller);
        open_controller(&world);
        if (world.now != BEGIN + 10 * SECOND)
            continue;
        pass(&world, world.now + 1);
        assert_why(&world, run, "waits 6 s before it is tried again, because it has failed 4 times, last: ");
    }
    assert_int_equal(state_of(&world, run), RUN_FAILED);
    assert_pauses(&world, run, pauses, 5, 250);
    close_world(&world);
}

/* By hours, while a controller runs, and while none does. */
static void a_clock_that_is_set_back_makes_no_pause_longer(void **state)
{
    for (int restart = 0; restart < 2; restart++) {
        struct world world;
        struct error error = {0};
        int64_t next;
        open_world(&world, 1, 1);
        int64_t run = give(&world, 1, 1, ",\"retries\":9", 100);
        world.code[run] = 3;
        pass(&world, BEGIN + 4 * SECOND); /* in the pause of 4 seconds */
        const int epochs = world.attempts[run];
        world.now -= 5 * HOUR;
        if (restart) {
            controller_close(world.controller);
            open_controller(&world);
        }
        for (int i = 0; i < 6; i++, world.now += SECOND)
            assert_int_equal(controller_step(world.controller, world.now, &next, &error), WEFT_OK);
        assert_int_equal(world.attempts[run], epochs + 1);
        close_world(&world);
    }
}

/* Nobody looks in vain, and nobody sleeps for too long. */
static void the_next_step_is_due_when_the_pause_ends(void **state)
{
    struct world world;
    struct error error = {0};
    int64_t next;
    open_world(&world, 1, 1);
    int64_t run = give(&world, 1, 1, ",\"retries\":9", 100);
    world.code[run] = 3;
    pass(&world, BEGIN + 300);
    assert_int_equal(controller_step(world.controller, world.now, &next, &error), WEFT_OK);
    assert_int_equal(next, run_of(world.registry, run).waiting_since + SECOND);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_s_failures_are_further_and_further_apart),
        cmocka_unit_test(whoever_asks_is_told_how_long_and_why),
        cmocka_unit_test(it_is_expected_when_its_pause_is_over_or_there_is_room),
        cmocka_unit_test(others_have_its_slots_meanwhile),
        cmocka_unit_test(a_first_failure_of_the_platform_costs_no_pause),
        cmocka_unit_test(who_asks_again_at_once_is_not_asked_a_thousand_times_a_minute),
        cmocka_unit_test(who_gives_way_does_not_pause),
        cmocka_unit_test(another_controller_goes_on_with_the_pause),
        cmocka_unit_test(a_clock_that_is_set_back_makes_no_pause_longer),
        cmocka_unit_test(the_next_step_is_due_when_the_pause_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
