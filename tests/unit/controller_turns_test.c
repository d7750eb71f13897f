/* SPDX-License-Identifier: Apache-2.0 */
/* Steps are short, however many runs there are: of an engine that tells who has something to say, some runs have a turn
 * in each step, all of them once a second; and where attempts take long to start, they start over several steps. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "controller_support.h"

#define MANY       200
#define TURNS_MOST 64 /* controller.c */
#define ACTS_LEAST 4

/* An engine that tells nothing by itself, counts what it is asked, and takes its time. */
static struct engine simulated;
static int polls, polls_of[RUNS], starts, starts_of[RUNS], stops, pause_of_start, pause_of_stop;

static weft_status hear_nothing(struct engine *engine, engine_heard_visit *visit, void *context, struct error *error)
{
    return WEFT_OK;
}

static weft_status poll_counted(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                                engine_record_visit *visit, void *context, struct error *error)
{
    polls++;
    polls_of[strtoll(attempt->run, NULL, 10)]++;
    return simulated.poll(engine, attempt, node, after, visit, context, error);
}

static weft_status start_slowly(struct engine *engine, const struct engine_order *order, struct error *error)
{
    starts++;
    starts_of[strtoll(order->attempt.run, NULL, 10)]++;
    poll(NULL, 0, pause_of_start);
    return simulated.start(engine, order, error);
}

static weft_status stop_slowly(struct engine *engine, const struct attempt *attempt, enum engine_end how,
                               uint64_t grace, struct error *error)
{
    stops++;
    poll(NULL, 0, pause_of_stop);
    return simulated.stop(engine, attempt, how, grace, error);
}

static void forget_counts(void)
{
    polls = starts = stops = 0;
    memset(polls_of, 0, sizeof polls_of);
    memset(starts_of, 0, sizeof starts_of);
}

static void open_slow_world(struct world *world, int start, int stop)
{
    prepare_world(world, 8, 32);
    simulated = *world->engine;
    world->engine->heard = hear_nothing;
    world->engine->poll = poll_counted;
    world->engine->start = start_slowly;
    world->engine->stop = stop_slowly;
    pause_of_start = start;
    pause_of_stop = stop;
    forget_counts();
    open_controller(world);
}

/* One step; when the next is due, from now on. */
static int64_t step(struct world *world)
{
    struct error error = {0};
    int64_t next;
    polls = starts = stops = 0;
    engine_simulated_advance(world->engine, (uint64_t)world->now);
    if (controller_step(world->controller, world->now, &next, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return next - world->now;
}

static void everybody_has_a_turn_each_second(void **state)
{
    struct world world;
    int64_t runs[MANY];
    open_slow_world(&world, 0, 0);
    for (int i = 0; i < MANY; i++)
        runs[i] = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + 10 * SECOND);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(state_of(&world, runs[i]), RUN_RUNNING);
    world.now += 5 * SECOND; /* a round is over, and the next one due */
    for (int round = 0; round < 3; round++) {
        const int64_t began = world.now;
        int64_t wait = 0;
        forget_counts();
        for (int asked = 0; asked < MANY; asked += polls) {
            world.now += wait;
            wait = step(&world);
            assert_in_range(polls, 1, TURNS_MOST);
            assert_true(asked + polls == MANY || wait <= 50); /* the rest comes soon */
        }
        for (int i = 0; i < MANY; i++)
            assert_int_equal(polls_of[runs[i]], 1);
        assert_true(world.now - began < SECOND / 2);
        world.now = began + SECOND / 2;
        step(&world);
        assert_int_equal(polls, 0); /* not before the second is over */
        world.now = began + SECOND;
    }
    close_world(&world);
}

/* Runs that end, and others that come, take nobody's turn. */
static void who_comes_and_goes_takes_nobodys_turn(void **state)
{
    struct world world;
    int64_t runs[MANY];
    open_slow_world(&world, 0, 0);
    for (int i = 0; i < MANY; i++)
        runs[i] = give(&world, 1, 1, "", i % 3 ? HOUR : 20 * SECOND);
    pass(&world, BEGIN + 10 * SECOND);
    for (int64_t at = BEGIN + 11 * SECOND; at < BEGIN + MINUTE; at += 3 * SECOND) {
        give(&world, 1, 1, "", HOUR);
        forget_counts();
        pass(&world, at + 3 * SECOND);
        for (int i = 0; i < MANY; i++)
            if (i % 3)
                assert_in_range(polls_of[runs[i]], 1, 4);
    }
    for (int i = 0; i < MANY; i++)
        assert_int_equal(state_of(&world, runs[i]), i % 3 ? RUN_RUNNING : RUN_SUCCEEDED);
    close_world(&world);
}

static void slow_starts_and_stops_are_spread_over_steps(void **state)
{
    enum { COUNT = 15 };
    struct world world;
    int64_t runs[COUNT];
    int started = 0, stopped = 0;
    open_slow_world(&world, 10, 10);
    for (int i = 0; i < COUNT; i++)
        runs[i] = give(&world, 1, 1, "", HOUR);
    for (int steps = 0; started < COUNT; steps++) {
        const int64_t wait = step(&world);
        assert_true(starts <= ACTS_LEAST); /* 20 ms were over by then */
        assert_true(steps < 2 * COUNT);
        started += starts;
        assert_true(started == COUNT || wait == 0);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(starts_of[runs[i]], 1);
    pass(&world, BEGIN + 5 * SECOND);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(controller_cancel(world.controller, runs[i], "ada", world.now, NULL), WEFT_OK);
    for (int steps = 0; stopped < COUNT; steps++) {
        const int64_t wait = step(&world);
        assert_true(stops <= ACTS_LEAST);
        assert_true(steps < 2 * COUNT);
        stopped += stops;
        assert_true(stopped == COUNT || wait == 0);
    }
    pass(&world, world.now + MINUTE);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(state_of(&world, runs[i]), RUN_CANCELLED);
    close_world(&world);
}

/* What cannot be started is tried again and again, and keeps none after it from being started. */
static int64_t refused_below;

static weft_status refuse_some(struct engine *engine, const struct engine_order *order, struct error *error)
{
    starts++;
    poll(NULL, 0, pause_of_start);
    if (strtoll(order->attempt.run, NULL, 10) < refused_below)
        return error_set(error, WEFT_ERROR_SYSTEM, "there is no room");
    return simulated.start(engine, order, error);
}

static void what_fails_again_and_again_holds_up_nobody(void **state)
{
    enum { COUNT = 24 };
    struct world world;
    int64_t runs[COUNT];
    open_slow_world(&world, 10, 0);
    world.engine->start = refuse_some;
    world.engine->refuses_for_all = true;
    for (int i = 0; i < COUNT; i++)
        runs[i] = give(&world, 1, 1, "", HOUR);
    refused_below = runs[COUNT / 2];
    for (int steps = 0; steps < COUNT; steps++) {
        step(&world);
        world.now += SECOND; /* all that failed is due again */
    }
    for (int i = COUNT / 2; i < COUNT; i++)
        assert_int_equal(state_of(&world, runs[i]), RUN_RUNNING);
    refused_below = 0;
    pass(&world, world.now + 10 * SECOND);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(state_of(&world, runs[i]), RUN_RUNNING);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_has_a_turn_each_second),
        cmocka_unit_test(who_comes_and_goes_takes_nobodys_turn),
        cmocka_unit_test(slow_starts_and_stops_are_spread_over_steps),
        cmocka_unit_test(what_fails_again_and_again_holds_up_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
