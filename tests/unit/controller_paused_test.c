/* SPDX-License-Identifier: Apache-2.0 */
/* Where scheduling is paused nothing starts, not even what was placed before; what runs goes on, and runs can be
 * cancelled. */
#include "controller_support.h"

#define WHY "scheduling is paused: a test"

/* Another controller on the same registry and engine, as after a crash. */
static void reopen(struct world *world, const char *paused)
{
    controller_close(world->controller);
    world->config.paused = paused;
    open_controller(world);
}

static void nothing_starts_until_it_is_resumed(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    int64_t ends = give(&world, 1, 2, "", 100 * SECOND), goes_on = give(&world, 1, 2, "", 3 * HOUR);
    pass(&world, BEGIN + 10 * SECOND);
    reopen(&world, WHY);
    int64_t waits = give(&world, 1, 1, "", SECOND), goes = give(&world, 1, 1, "", SECOND);
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, ends), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, goes_on), RUN_RUNNING);
    assert_int_equal(state_of(&world, waits), RUN_QUEUED);
    assert_why(&world, waits, WHY);
    assert_int_equal(controller_cancel(world.controller, goes, "ada", world.now, NULL), WEFT_OK);
    assert_int_equal(controller_cancel(world.controller, goes_on, "ada", world.now, NULL), WEFT_OK);
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_int_equal(state_of(&world, goes), RUN_CANCELLED);
    assert_int_equal(state_of(&world, goes_on), RUN_CANCELLED);
    controller_resume(world.controller);
    pass(&world, BEGIN + HOUR + 2 * MINUTE);
    assert_int_equal(state_of(&world, waits), RUN_SUCCEEDED);
    check_ledger(&world);
    close_world(&world);
}

static weft_status refuse_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    return error_set(error, WEFT_ERROR_SYSTEM, "not yet");
}

/* The crash came between the placement and the start. */
static void what_was_placed_before_waits_too(void **state)
{
    struct world world;
    prepare_world(&world, 1, 8);
    weft_status (*start)(struct engine * engine, const struct engine_order *order, struct error *error) =
        world.engine->start;
    world.engine->refuses_for_all = true;
    world.engine->start = refuse_start;
    open_controller(&world);
    int64_t placed = give(&world, 1, 2, "", SECOND), gone = give(&world, 1, 2, "", SECOND);
    pass(&world, BEGIN + SECOND);
    world.engine->start = start;
    assert_int_equal(state_of(&world, placed), RUN_PLACED);
    reopen(&world, WHY);
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, placed), RUN_PLACED);
    assert_int_equal(world.attempts[placed], 0);
    assert_int_equal(controller_cancel(world.controller, gone, "ada", world.now, NULL), WEFT_OK);
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_int_equal(state_of(&world, gone), RUN_CANCELLED);
    controller_resume(world.controller);
    pass(&world, BEGIN + HOUR + 2 * MINUTE);
    assert_int_equal(state_of(&world, placed), RUN_SUCCEEDED);
    check_ledger(&world);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_starts_until_it_is_resumed),
                                       cmocka_unit_test(what_was_placed_before_waits_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
