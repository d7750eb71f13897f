/* SPDX-License-Identifier: Apache-2.0 */
/* The clock is set back by hours: what was due in a moment is not due in hours. */
#include "controller_support.h"
#include "platform/controller_state.h"

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
    world.engine->one_machine = true;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_slice_is_no_longer),
        cmocka_unit_test(what_is_tried_again_is_tried_soon),
        cmocka_unit_test(passes_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
