/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attempt is asked to end, for every cause there is: before the engine has heard of it, before its program has begun
 * and while it runs. What never ran has not succeeded, and what gives way runs again.
 */
#include "controller_support.h"
#include "platform/controller/internal/state.h"

/* How far an attempt has come. */
enum moment { PLACED, STARTED, BEGUN, MOMENTS };

static const char *const moments[] = {"placed", "started", "begun"};

static weft_status (*real_start)(struct engine *engine, const struct engine_order *order, struct error *error);

static weft_status refuse_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    return error_set(error, WEFT_ERROR_SYSTEM, "not yet");
}

static void ask(struct world *world, int64_t number, enum run_cause cause)
{
    struct error error = {0};
    struct controlled_run *run = runs_find(world->controller, number);
    assert_non_null(run);
    assert_int_equal(database_begin(world->registry, DATABASE_DURABLE, NULL), WEFT_OK);
    weft_status status = attempt_ask(world->controller, run, cause, "", "a test", world->now, &error);
    if (database_end(world->registry, status, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    if (!run_cause_gives_way(cause))
        return;
    scheduler_requeue(world->controller->scheduler, run->name, controlled_seconds(world->now));
    run->place = CONTROLLED_IN_QUEUE;
}

/* Ask for the end of an attempt at `moment`, of a program that ends with `code` when it is asked to; the controller may
 * die before it has told anybody. */
static void ask_at(enum run_cause cause, enum moment moment, uint32_t code, bool dies)
{
    struct world world;
    prepare_world(&world, 1, 4);
    world.stop_code = code;
    real_start = world.engine->start;
    world.engine->refuses_for_all = true;
    if (moment == PLACED)
        world.engine->start = refuse_start;
    open_controller(&world);
    int64_t run = give(&world, 1, 4, "", HOUR);
    pass(&world, moment == BEGUN ? BEGIN + MINUTE : BEGIN);
    static const enum run_state states[] = {RUN_PLACED, RUN_STARTING, RUN_RUNNING};
    assert_int_equal(state_of(&world, run), states[moment]);
    world.engine->start = real_start;
    ask(&world, run, cause);
    if (dies) {
        controller_close(world.controller);
        open_controller(&world);
    }
    pass(&world, BEGIN + 2 * MINUTE);

    struct registry_run found = run_of(world.registry, run);
    const bool well = moment == BEGUN && code == 0;
    enum run_state expected = RUN_RUNNING; /* again */
    if (cause == RUN_CAUSE_CANCEL)
        expected = RUN_CANCELLED;
    else if (well)
        expected = RUN_SUCCEEDED;
    else if (!run_cause_gives_way(cause))
        expected = RUN_FAILED;
    if (found.state != expected)
        fail_msg("%s, %s, code %u%s: %s, not %s", run_cause_name(cause), moments[moment], code, dies ? ", dies" : "",
                 run_state_name(found.state), run_state_name(expected));
    assert_int_equal(found.platform_failures, 0);
    assert_int_equal(found.program_failures, 0);
    if (moment != BEGUN)
        assert_int_equal(found.served, 0);
    if (expected == RUN_RUNNING) {
        assert_true(has_event(&world, run, RUN_CAUSE_VACATED));
        assert_int_equal(found.epoch, 2);
        pass(&world, BEGIN + 2 * HOUR);
        assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    }
    close_world(&world);
}

static void every_cause_at_every_moment(void **state)
{
    for (int cause = 0; cause < RUN_CAUSES; cause++)
        for (int moment = 0; moment < MOMENTS && run_cause_is_stop((enum run_cause)cause); moment++)
            for (int kind = 0; kind < 4; kind++)
                ask_at((enum run_cause)cause, (enum moment)moment, kind % 2 ? 75 : 0, kind / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cause_at_every_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
