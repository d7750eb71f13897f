/* SPDX-License-Identifier: Apache-2.0 */
/* What a class of runs allows: how long, how long at a time, how many at once, how idle. */
#include "controller_support.h"

static const struct controller_class classes[] = {
    {.name = "interactive", .time_limit = 3600, .runs_most = 1, .idle_limit = 1800, .idle_stops = true},
    {.name = "batch", .time_slice = 7200},
    {.name = "day", .time_limit = 86400},
};

static void open_classes(struct world *world, uint32_t slots)
{
    prepare_world(world, 1, slots);
    world->config.classes = classes;
    world->config.class_count = 3;
    open_controller(world);
}

static void a_class_has_a_longest_time(void **state)
{
    struct world world;
    open_classes(&world, 4);
    int64_t bound = give(&world, 1, 1, ",\"class\":\"interactive\"", 10 * HOUR);
    int64_t own = give(&world, 1, 1, ",\"class\":\"day\",\"time_limit\":\"30m\"", 10 * HOUR);
    int64_t free = give(&world, 1, 1, "", 10 * HOUR);
    pass(&world, BEGIN + SECOND);
    controller_close(world.controller); /* the next one knows it too */
    open_controller(&world);
    const struct controller_plan *plan;
    assert_int_equal(controller_plan(world.controller, world.now, &plan, NULL), WEFT_OK);
    assert_int_equal(plan->running_count, 3);
    assert_true(plan->running[0].ends_before <= BEGIN + HOUR + SECOND);
    pass(&world, BEGIN + HOUR - MINUTE);
    assert_int_equal(state_of(&world, own), RUN_FAILED);
    assert_int_equal(state_of(&world, bound), RUN_RUNNING);
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_int_equal(state_of(&world, bound), RUN_FAILED);
    assert_true(has_event(&world, bound, RUN_CAUSE_TIME_LIMIT));
    assert_int_equal(state_of(&world, free), RUN_RUNNING);
    close_world(&world);
}

/* The time limit that a run shows, and how often a remark said that this is less than it asked for. */
static unsigned limit_told(struct world *world, int64_t run, int64_t shown)
{
    struct registry_event *list;
    size_t count;
    unsigned told = 0;
    assert_int_equal(run_of(world->registry, run).time_limit, shown);
    assert_int_equal(registry_run_events(world->registry, run, 0, 1000, &list, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        told += list[i].cause == RUN_CAUSE_NOTED && strstr(list[i].detail, "all that its class") != NULL;
    free(list);
    return told;
}

static void the_time_limit_that_applies_is_the_one_that_is_shown(void **state)
{
    static const struct controller_class stricter[] = {{.name = "interactive", .time_limit = 1800}, {.name = "day"}};
    struct world world;
    open_classes(&world, 1);
    int64_t runs = give(&world, 1, 1, ",\"class\":\"interactive\",\"time_limit\":\"2h\"", 10 * HOUR);
    pass(&world, BEGIN + SECOND);
    int64_t waits = give(&world, 1, 1, ",\"class\":\"interactive\",\"time_limit\":\"2h\"", 10 * HOUR);
    int64_t own = give(&world, 1, 1, ",\"class\":\"day\",\"time_limit\":\"30m\"", HOUR);
    assert_int_equal(limit_told(&world, runs, 3600), 1);
    assert_int_equal(limit_told(&world, waits, 3600), 1);
    assert_int_equal(limit_told(&world, own, 1800), 0);
    controller_close(world.controller);
    world.config.classes = stricter;
    world.config.class_count = 2;
    open_controller(&world);
    assert_int_equal(limit_told(&world, runs, 3600), 1); /* it was started with that */
    assert_int_equal(limit_told(&world, waits, 1800), 2);
    assert_int_equal(limit_told(&world, own, 1800), 0);
    pass(&world, BEGIN + HOUR - MINUTE);
    assert_int_equal(state_of(&world, runs), RUN_RUNNING);
    close_world(&world);
}

static void a_class_has_a_time_slice(void **state)
{
    struct world world;
    open_classes(&world, 2);
    int64_t yields = give(&world, 1, 1, ",\"preemptible\":true", 30 * HOUR);
    int64_t stays = give(&world, 1, 1, "", 30 * HOUR); /* it has no checkpoint to come back from */
    pass(&world, BEGIN + 3 * HOUR);
    assert_int_equal(world.attempts[yields], 1); /* nobody waits */
    int64_t other = give(&world, 1, 1, "", HOUR);
    pass(&world, world.now + MINUTE);
    assert_true(has_event(&world, yields, RUN_CAUSE_SLICE_END));
    assert_false(has_event(&world, stays, RUN_CAUSE_SLICE_END));
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    pass(&world, world.now + 2 * HOUR);
    assert_int_equal(state_of(&world, yields), RUN_RUNNING); /* again */
    close_world(&world);
}

/* How often a run was asked to end because its time slice was over. */
static unsigned turns_of(struct world *world, int64_t run)
{
    struct registry_event *list;
    size_t count;
    unsigned turns = 0;
    assert_int_equal(registry_run_events(world->registry, run, 0, 1000, &list, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        turns += list[i].cause == RUN_CAUSE_SLICE_END && list[i].verdict == REGISTRY_DONE;
    free(list);
    return turns;
}

static void no_more_give_way_than_somebody_can_use(void **state)
{
    struct world world;
    int64_t held[4];
    unsigned turns = 0;
    open_classes(&world, 8);
    for (int i = 0; i < 4; i++)
        held[i] = give(&world, 1, 2, ",\"preemptible\":true", 30 * HOUR);
    pass(&world, BEGIN + 3 * HOUR);
    int64_t other = give(&world, 1, 1, "", 5 * HOUR);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    for (int i = 0; i < 4; i++)
        turns += turns_of(&world, held[i]);
    assert_int_equal(turns, 1);
    /* The one that gave way has its turn again when another has had two hours more. */
    pass(&world, world.now + HOUR);
    for (int i = 0; i < 4; i++)
        turns -= turns_of(&world, held[i]);
    assert_int_equal(turns, 0);
    pass(&world, world.now + HOUR);
    for (int i = 0; i < 4; i++)
        turns += turns_of(&world, held[i]);
    assert_int_equal(turns, 2);
    close_world(&world);
}

static void a_gang_has_only_what_it_needs_of_others(void **state)
{
    struct world world;
    int64_t held[6];
    unsigned turns = 0;
    prepare_world(&world, 3, 2);
    world.config.classes = classes;
    world.config.class_count = 3;
    open_controller(&world);
    for (int i = 0; i < 6; i++)
        held[i] = give(&world, 1, 1, ",\"preemptible\":true", 30 * HOUR);
    pass(&world, BEGIN + 3 * HOUR);
    int64_t gang = give(&world, 2, 2, "", HOUR);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, gang), RUN_RUNNING);
    for (int i = 0; i < 6; i++)
        turns += turns_of(&world, held[i]);
    assert_int_equal(turns, 4);
    close_world(&world);
}

static void nobody_gives_way_to_one_who_cannot_have_the_slots(void **state)
{
    struct world world;
    prepare_world(&world, 1, 4);
    world.config.classes = classes;
    world.config.class_count = 3;
    world.config.personal_share = 0.5;
    open_controller(&world);
    int64_t yields = give(&world, 1, 2, ",\"preemptible\":true", 30 * HOUR), stays = give(&world, 1, 2, "", 30 * HOUR);
    pass(&world, BEGIN + SECOND);
    int64_t beyond = give(&world, 1, 1, "", HOUR); /* the other two are kept for personal runs */
    pass(&world, BEGIN + 5 * HOUR);
    assert_int_equal(state_of(&world, stays), RUN_RUNNING);
    assert_int_equal(state_of(&world, beyond), RUN_QUEUED);
    assert_int_equal(world.attempts[yields], 1);
    close_world(&world);
}

static void nobody_gives_way_to_one_who_has_slots_in_a_moment(void **state)
{
    struct world world;
    open_classes(&world, 2);
    int64_t yields = give(&world, 1, 1, ",\"preemptible\":true", 30 * HOUR), ends = give(&world, 1, 1, "", 30 * HOUR);
    pass(&world, BEGIN + 3 * HOUR);
    int64_t other = give(&world, 1, 1, "", HOUR);
    assert_int_equal(controller_cancel(world.controller, ends, "ada", world.now, NULL), WEFT_OK);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    assert_int_equal(world.attempts[yields], 1);
    close_world(&world);
}

static void a_user_has_so_many_of_a_class_at_once(void **state)
{
    struct world world;
    open_classes(&world, 8);
    const char *more = ",\"class\":\"interactive\"";
    int64_t first = give(&world, 1, 1, more, HOUR / 2), second = give(&world, 1, 1, more, HOUR / 2);
    int64_t others = give_to(&world, "vision", "bob", 1, 1, more, HOUR / 2), batch = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + SECOND);
    assert_int_equal(state_of(&world, first), RUN_RUNNING);
    assert_int_equal(state_of(&world, second), RUN_QUEUED);
    assert_int_equal(state_of(&world, others), RUN_RUNNING);
    assert_int_equal(state_of(&world, batch), RUN_RUNNING);
    assert_why(&world, second, "'ada' may have 1 run of class 'interactive' at once");
    controller_close(world.controller);
    open_controller(&world);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(state_of(&world, second), RUN_QUEUED);
    pass(&world, BEGIN + HOUR / 2 + MINUTE);
    assert_int_equal(state_of(&world, second), RUN_RUNNING);
    close_world(&world);
}

static void a_class_that_is_not_there_is_refused(void **state)
{
    struct world world;
    struct error error = {0};
    open_classes(&world, 1);
    struct run_specification specification =
        specification_of("{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"train\"],\"class\":\"bacth\"}");
    assert_int_equal(controller_check(world.controller, &specification, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "there is no class 'bacth' of runs; there are: interactive, batch, day"));
    run_specification_free(&specification);
    int64_t run = give(&world, 1, 1, ",\"class\":\"bacth\"", HOUR);
    assert_int_equal(state_of(&world, run), RUN_CANCELLED);
    assert_non_null(strstr(run_of(world.registry, run).detail, "there is no class 'bacth'"));
    close_world(&world);
}

/* How often a run's owner got a remark. */
static unsigned notes_of(struct world *world, int64_t run)
{
    struct registry_event *list;
    size_t count;
    unsigned notes = 0;
    assert_int_equal(registry_run_events(world->registry, run, 0, 1000, &list, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        if (list[i].cause == RUN_CAUSE_NOTED && strcmp(list[i].detail, "uses what it holds again") != 0) {
            assert_string_equal(list[i].detail, "used nothing");
            notes++;
        }
    free(list);
    return notes;
}

static bool count_note(void *context, const struct journal_record *record)
{
    *(unsigned *)context += record->kind == JOURNAL_NOTE;
    return true;
}

/* And how many lines in its output say so. */
static unsigned lines_of(struct world *world, int64_t run)
{
    unsigned lines = 0;
    struct attempt attempt = {.epoch = 1};
    snprintf(attempt.run, sizeof attempt.run, "%" PRId64, run);
    assert_int_equal(world->engine->poll(world->engine, &attempt, 0, 0, count_note, &lines, NULL), WEFT_OK);
    return lines;
}

static void idle_runs_are_told_and_stopped_as_their_class_says(void **state)
{
    struct world world;
    open_classes(&world, 4);
    int64_t waits = give(&world, 1, 4, "", HOUR);
    int64_t idle = give(&world, 1, 1, ",\"class\":\"interactive\",\"time_limit\":\"1h\"", HOUR);
    int64_t batch = give(&world, 1, 1, "", 10 * HOUR), limit;
    bool stops, stopped;
    pass(&world, BEGIN + MINUTE);
    controller_idle_limits(world.controller, idle, &limit, &stops);
    assert_true(limit == 1800 && stops);
    controller_idle_limits(world.controller, batch, &limit, &stops);
    assert_true(limit == 3600 && !stops);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(controller_flag_idle(world.controller, idle, "used nothing", world.now, NULL), WEFT_OK);
        assert_int_equal(controller_flag_idle(world.controller, batch, "used nothing", world.now, NULL), WEFT_OK);
        assert_int_equal(controller_flag_idle(world.controller, waits, "used nothing", world.now, NULL), WEFT_OK);
    }
    assert_int_equal(notes_of(&world, idle), 1);
    assert_int_equal(notes_of(&world, batch), 1);
    assert_int_equal(lines_of(&world, batch), 1);
    assert_int_equal(notes_of(&world, waits), 0);
    assert_int_equal(controller_stop_idle(world.controller, batch, "used nothing", world.now, &stopped, NULL), WEFT_OK);
    assert_false(stopped);
    assert_int_equal(controller_stop_idle(world.controller, idle, "used nothing", world.now, &stopped, NULL), WEFT_OK);
    assert_true(stopped);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, idle), RUN_FAILED);
    assert_string_equal(run_of(world.registry, idle).detail, "was stopped because it was idle: used nothing");
    assert_true(has_event(&world, idle, RUN_CAUSE_IDLE));
    assert_true(has_event(&world, idle, RUN_CAUSE_OVERDUE));
    assert_int_equal(state_of(&world, batch), RUN_RUNNING);
    close_world(&world);
}

static void an_idle_run_is_marked_until_it_works_again(void **state)
{
    struct world world;
    int64_t idle_runs;
    open_classes(&world, 4);
    int64_t run = give(&world, 1, 1, ",\"preemptible\":true", 10 * HOUR);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(controller_clear_idle(world.controller, run, world.now, NULL), WEFT_OK);
    assert_int_equal(run_of(world.registry, run).idle_since, 0);
    assert_int_equal(controller_flag_idle(world.controller, run, "used nothing", world.now, NULL), WEFT_OK);
    assert_int_equal(run_of(world.registry, run).idle_since, world.now);
    assert_int_equal(registry_idle_runs(world.registry, &idle_runs, NULL), WEFT_OK);
    assert_int_equal(idle_runs, 1);
    /* Another controller has it, and reports nothing again. */
    controller_close(world.controller);
    open_controller(&world);
    assert_int_equal(controller_flag_idle(world.controller, run, "used nothing", world.now + MINUTE, NULL), WEFT_OK);
    assert_int_equal(run_of(world.registry, run).idle_since, world.now);
    assert_int_equal(notes_of(&world, run), 1);
    assert_int_equal(lines_of(&world, run), 1);
    assert_int_equal(controller_clear_idle(world.controller, run, world.now, NULL), WEFT_OK);
    assert_int_equal(lines_of(&world, run), 2);
    assert_int_equal(run_of(world.registry, run).idle_since, 0);
    assert_int_equal(controller_flag_idle(world.controller, run, "used nothing", world.now, NULL), WEFT_OK);
    assert_int_equal(notes_of(&world, run), 2);
    assert_int_equal(controller_cancel(world.controller, run, "ada", world.now, NULL), WEFT_OK);
    pass(&world, world.now + MINUTE);
    assert_int_equal(run_of(world.registry, run).idle_since, 0);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_has_a_longest_time),
        cmocka_unit_test(the_time_limit_that_applies_is_the_one_that_is_shown),
        cmocka_unit_test(a_class_has_a_time_slice),
        cmocka_unit_test(no_more_give_way_than_somebody_can_use),
        cmocka_unit_test(a_gang_has_only_what_it_needs_of_others),
        cmocka_unit_test(nobody_gives_way_to_one_who_cannot_have_the_slots),
        cmocka_unit_test(nobody_gives_way_to_one_who_has_slots_in_a_moment),
        cmocka_unit_test(a_user_has_so_many_of_a_class_at_once),
        cmocka_unit_test(a_class_that_is_not_there_is_refused),
        cmocka_unit_test(idle_runs_are_told_and_stopped_as_their_class_says),
        cmocka_unit_test(an_idle_run_is_marked_until_it_works_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
