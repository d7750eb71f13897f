/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent that is stopped or stuck obeys nobody: a run that has to end, by a time limit or by request, ends nevertheless,
 * and its slots are free again. One that need not end goes on, and says that nothing is heard of it.
 */
#define WORLD_HEARTBEAT 10000
#include "controller_support.h"

#define GRACE    (30 * SECOND) /* CONTROLLER_LIMITS */
#define PATIENCE (30 * SECOND)

/* An engine before another one, in which the agents of one run are stopped. */
struct icy {
    struct engine engine; /* first */
    struct engine *behind;
    int64_t frozen; /* 0: none */
    unsigned kills;
};

#define BEHIND ((struct icy *)engine)->behind

static bool is_frozen(struct engine *engine, const struct attempt *attempt)
{
    return ((struct icy *)engine)->frozen == strtoll(attempt->run, NULL, 10);
}

static weft_status icy_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    return BEHIND->start(BEHIND, order, error);
}

static weft_status icy_stop(struct engine *engine, const struct attempt *attempt, enum engine_end how, uint64_t grace,
                            struct error *error)
{
    return is_frozen(engine, attempt) ? WEFT_OK : BEHIND->stop(BEHIND, attempt, how, grace, error);
}

static weft_status icy_poll(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                            engine_record_visit *visit, void *context, struct error *error)
{
    return is_frozen(engine, attempt) ? WEFT_OK : BEHIND->poll(BEHIND, attempt, node, after, visit, context, error);
}

static weft_status icy_gone(struct engine *engine, const struct attempt *attempt, uint32_t node, bool kill, bool *gone,
                            struct error *error)
{
    ((struct icy *)engine)->kills += kill;
    return BEHIND->gone(BEHIND, attempt, node, kill, gone, error);
}

static weft_status icy_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    return BEHIND->hosts(BEHIND, visit, context, error);
}

static void open_ice(struct world *world, struct icy *icy)
{
    prepare_world(world, 1, 4);
    *icy = (struct icy){.engine = {.name = "icy",
                                   .heartbeat = WORLD_HEARTBEAT,
                                   .descriptor = -1,
                                   .start = icy_start,
                                   .stop = icy_stop,
                                   .poll = icy_poll,
                                   .gone = icy_gone,
                                   .hosts = icy_hosts},
                        .behind = world->engine};
    world->config.engine = &icy->engine;
    open_controller(world);
}

static int remarks_of(struct world *world, int64_t run)
{
    struct registry_event *list;
    size_t count;
    int found = 0;
    assert_int_equal(registry_run_events(world->registry, run, 0, 1000, &list, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        found += list[i].cause == RUN_CAUSE_NOTED && strstr(list[i].detail, "nothing was heard of node-0 for 30 s");
    free(list);
    return found;
}

static void a_frozen_run_ends_by_its_time_limit(void **state)
{
    struct world world;
    struct icy icy;
    open_ice(&world, &icy);
    int64_t run = give(&world, 1, 4, ",\"time_limit\":\"10m\"", HOUR), next = give(&world, 1, 4, "", MINUTE);
    pass(&world, BEGIN + MINUTE);
    icy.frozen = run;
    pass(&world, BEGIN + 10 * MINUTE + PATIENCE - 2 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    assert_int_equal(remarks_of(&world, run), 1);
    pass(&world, BEGIN + 10 * MINUTE + PATIENCE + 2 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_STOPPING);
    pass(&world, BEGIN + 10 * MINUTE + PATIENCE + GRACE + PATIENCE - 2 * SECOND);
    assert_int_equal(icy.kills, 0);
    pass(&world, BEGIN + 10 * MINUTE + PATIENCE + GRACE + PATIENCE + 4 * SECOND);
    struct registry_run ended = run_of(world.registry, run);
    assert_int_equal(ended.state, RUN_FAILED);
    assert_int_equal(ended.cause, RUN_CAUSE_OVERDUE);
    assert_int_equal(state_of(&world, next), RUN_RUNNING);
    /* All of the time is its own: nobody can have slots for less by stopping an agent. */
    assert_true(ended.served > 10 * MINUTE + PATIENCE + GRACE);
    assert_int_equal(ended.platform_failures, 0);
    close_world(&world);
}

static void a_frozen_run_can_be_stopped(void **state)
{
    struct world world;
    struct icy icy;
    open_ice(&world, &icy);
    int64_t run = give(&world, 1, 4, "", 10 * HOUR);
    pass(&world, BEGIN + MINUTE);
    icy.frozen = run;
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    assert_int_equal(controller_cancel(world.controller, run, "ada", world.now, NULL), WEFT_OK);
    pass(&world, BEGIN + HOUR + GRACE + PATIENCE - SECOND);
    assert_int_equal(state_of(&world, run), RUN_STOPPING);
    pass(&world, BEGIN + HOUR + GRACE + PATIENCE + 4 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_CANCELLED);
    close_world(&world);
}

/* The next server has the request, but not its time. */
static void a_frozen_run_can_be_stopped_across_a_restart(void **state)
{
    struct world world;
    struct icy icy;
    open_ice(&world, &icy);
    int64_t run = give(&world, 1, 4, "", 10 * HOUR);
    pass(&world, BEGIN + MINUTE);
    icy.frozen = run;
    assert_int_equal(controller_cancel(world.controller, run, "ada", world.now, NULL), WEFT_OK);
    pass(&world, BEGIN + MINUTE + 20 * SECOND);
    controller_close(world.controller);
    open_controller(&world);
    pass(&world, BEGIN + 2 * MINUTE + 30 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_CANCELLED);
    close_world(&world);
}

static void a_frozen_run_that_thaws_goes_on(void **state)
{
    struct world world;
    struct icy icy;
    open_ice(&world, &icy);
    int64_t run = give(&world, 1, 4, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    icy.frozen = run;
    pass(&world, BEGIN + 50 * MINUTE);
    icy.frozen = 0;
    pass(&world, BEGIN + 2 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_int_equal(remarks_of(&world, run), 1);
    assert_int_equal(icy.kills, 0);
    close_world(&world);
}

/* The agent's clock does not count the time for which the machine slept; the controller's does. */
static void a_night_of_sleep_is_no_silence(void **state)
{
    struct world world;
    struct icy icy;
    open_ice(&world, &icy);
    int64_t run = give(&world, 1, 4, ",\"time_limit\":\"10m\"", HOUR);
    pass(&world, BEGIN + MINUTE);
    icy.frozen = run;
    world.now += 8 * HOUR;
    assert_int_equal(controller_shift_clock(world.controller, 8 * HOUR, world.now, NULL), WEFT_OK);
    pass(&world, world.now + 5 * SECOND);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    assert_int_equal(remarks_of(&world, run), 0);
    close_world(&world);
}

/* A run that heeds nobody, but whose agent lives, is the agent's to end. */
static void what_is_heard_is_not_killed(void **state)
{
    struct world world;
    struct icy icy;
    open_ice(&world, &icy);
    int64_t run = give(&world, 1, 4, ",\"time_limit\":\"10m\"", HOUR);
    pass(&world, BEGIN + 30 * MINUTE);
    assert_int_equal(run_of(world.registry, run).cause, RUN_CAUSE_OVERDUE);
    assert_int_equal(remarks_of(&world, run), 0);
    assert_int_equal(icy.kills, 0);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frozen_run_ends_by_its_time_limit),
        cmocka_unit_test(a_frozen_run_can_be_stopped),
        cmocka_unit_test(a_frozen_run_can_be_stopped_across_a_restart),
        cmocka_unit_test(a_frozen_run_that_thaws_goes_on),
        cmocka_unit_test(a_night_of_sleep_is_no_silence),
        cmocka_unit_test(what_is_heard_is_not_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
