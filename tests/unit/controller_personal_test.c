/* SPDX-License-Identifier: Apache-2.0 */
/* Small runs of anybody's own: without a budget, on slots that are kept for them or made free at once. */
#include "controller_support.h"

/* A cluster that keeps a quarter of its slots. */
static void open_share(struct world *world, uint32_t hosts, uint32_t slots)
{
    static const char *const users[] = {"ada", "bob", "eve"};
    prepare_world(world, hosts, slots);
    world->config.personal_share = 0.25;
    world->config.personal_slots_most = 1;
    world->config.personal_runs_most = 2;
    for (size_t i = 0; i < 3; i++)
        CHANGE(world->registry, registry_project_personal(world->registry, users[i], world->now, &error));
    open_controller(world);
}

static int64_t give_own(struct world *world, const char *user, const char *more, int64_t duration)
{
    return give_to(world, user, user, 1, 1, more, duration);
}

static void a_personal_project_is_made_once(void **state)
{
    struct world world;
    struct registry_project found;
    open_share(&world, 1, 4);
    CHANGE(world.registry, registry_project_personal(world.registry, "ada", world.now, &error));
    assert_int_equal(registry_project_get(world.registry, "ada", &found, NULL), WEFT_OK);
    assert_true(found.personal);
    assert_int_equal(registry_project_get(world.registry, "vision", &found, NULL), WEFT_OK);
    assert_false(found.personal);
    CHANGE(world.registry, registry_user_put(world.registry, "vision", false, 1, &error));
    REFUSE(world.registry, WEFT_ERROR_STATE, "there is a project 'vision' that is not the personal one",
           registry_project_personal(world.registry, "vision", world.now, &error));
    REFUSE(world.registry, WEFT_ERROR_ARGUMENT, "there is no user 'nobody'",
           registry_project_personal(world.registry, "nobody", world.now, &error));
    /* What runs there needs no budget: it is nobody else's way around one. */
    CHANGE(world.registry, registry_member_put(world.registry, "ada", "bob", ROLE_VIEWER, world.now, &error));
    REFUSE(world.registry, WEFT_ERROR_ARGUMENT, "project 'ada' is the personal one of 'ada'",
           registry_member_put(world.registry, "ada", "bob", ROLE_MEMBER, world.now, &error));
    close_world(&world);
}

/* However full the cluster is, of whatever runs: a personal one starts within a minute. */
static void a_personal_run_starts_within_a_minute(void **state)
{
    struct world world;
    open_share(&world, 2, 8);
    int64_t others[24];
    for (int i = 0; i < 24; i++) /* ada's runs would take all; by turns they can give way and cannot */
        others[i] = give(&world, 1, 1, i % 2 ? ",\"preemptible\":true" : "", 100 * HOUR);
    pass(&world, BEGIN + MINUTE);
    unsigned running = 0;
    for (int i = 0; i < 24; i++)
        running += state_of(&world, others[i]) == RUN_RUNNING;
    assert_int_equal(running, 16);
    int64_t bobs = give_own(&world, "bob", "", HOUR), eves = give_own(&world, "eve", "", HOUR);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, bobs), RUN_RUNNING);
    assert_int_equal(state_of(&world, eves), RUN_RUNNING);
    unsigned gave_way = 0;
    for (int i = 0; i < 24; i++)
        gave_way += has_event(&world, others[i], RUN_CAUSE_PREEMPT);
    assert_int_equal(gave_way, 2);
    check_ledger(&world);
    close_world(&world);
}

/* Runs that cannot give way never have what is kept. */
static void what_cannot_give_way_leaves_what_is_kept(void **state)
{
    struct world world;
    open_share(&world, 1, 8);
    int64_t runs[8];
    unsigned running = 0;
    for (int i = 0; i < 8; i++)
        runs[i] = give(&world, 1, 1, "", 100 * HOUR);
    pass(&world, BEGIN + HOUR);
    for (int i = 0; i < 8; i++)
        running += state_of(&world, runs[i]) == RUN_RUNNING;
    assert_int_equal(running, 6);
    for (int i = 0; i < 8; i++)
        if (state_of(&world, runs[i]) == RUN_QUEUED)
            assert_why(&world, runs[i],
                       "2 slots are free, but 2 of all are kept for small personal runs and those that can give way");
    int64_t large = give(&world, 1, 7, "", HOUR), yields = give(&world, 1, 2, ",\"preemptible\":true", HOUR);
    pass(&world, world.now + SECOND);
    assert_int_equal(state_of(&world, large), RUN_CANCELLED);
    assert_non_null(strstr(run_of(world.registry, large).detail, "2 of all 8 are kept for small personal runs"));
    assert_int_equal(state_of(&world, yields), RUN_RUNNING);
    controller_close(world.controller); /* the next one keeps to it too, and leaves what runs */
    world.config.personal_share = 0.5;
    open_controller(&world);
    pass(&world, world.now + SECOND);
    for (int i = 0; i < 8; i++)
        assert_int_equal(state_of(&world, runs[i]), i < 6 ? RUN_RUNNING : RUN_QUEUED);
    close_world(&world);
}

/* What personal runs take beyond their share, nobody is preempted for. */
static void beyond_the_share_a_personal_run_waits_like_others(void **state)
{
    struct world world;
    open_share(&world, 1, 4); /* one slot */
    for (int i = 0; i < 4; i++)
        give(&world, 1, 1, ",\"preemptible\":true", 100 * HOUR);
    pass(&world, BEGIN + SECOND);
    int64_t first = give_own(&world, "bob", "", HOUR), second = give_own(&world, "eve", "", HOUR);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(state_of(&world, first), RUN_RUNNING);
    assert_int_equal(state_of(&world, second), RUN_QUEUED);
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_int_equal(state_of(&world, second), RUN_RUNNING);
    close_world(&world);
}

static void a_user_has_so_many_at_once(void **state)
{
    struct world world;
    struct error error = {0};
    open_share(&world, 2, 8);
    int64_t runs[3], other = give_own(&world, "eve", "", HOUR);
    for (int i = 0; i < 3; i++)
        runs[i] = give_own(&world, "bob", "", (i + 1) * HOUR);
    pass(&world, BEGIN + SECOND);
    assert_int_equal(state_of(&world, runs[1]), RUN_RUNNING);
    assert_int_equal(state_of(&world, runs[2]), RUN_QUEUED);
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    assert_why(&world, runs[2], "'bob' may have 2 personal runs at once");
    pass(&world, BEGIN + HOUR + 5 * SECOND);
    assert_int_equal(state_of(&world, runs[2]), RUN_RUNNING);
    /* And so large. */
    struct run_specification specification =
        specification_of("{\"project\":\"bob\",\"owner\":\"bob\",\"command\":[\"train\"],\"slots\":2}");
    assert_int_equal(controller_check(world.controller, &specification, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "a personal run may have 1 slot, and this one asks for 2"));
    run_specification_free(&specification);
    int64_t large = give_to(&world, "bob", "bob", 1, 2, "", HOUR);
    assert_int_equal(state_of(&world, large), RUN_CANCELLED);
    close_world(&world);
}

static void no_budget_is_needed(void **state)
{
    struct world world;
    struct ledger_budget budget;
    open_share(&world, 1, 4);
    CHANGE(world.registry, ledger_budget_put(world.registry, "bob", 0, 0, true, world.now, &error));
    int64_t run = give_own(&world, "bob", "", HOUR);
    pass(&world, BEGIN + 2 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_int_equal(ledger_budget_get(world.registry, "bob", 0, &budget, NULL), WEFT_OK);
    assert_int_equal(budget.spent, HOUR);
    check_ledger(&world);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_personal_project_is_made_once),
        cmocka_unit_test(a_personal_run_starts_within_a_minute),
        cmocka_unit_test(what_cannot_give_way_leaves_what_is_kept),
        cmocka_unit_test(beyond_the_share_a_personal_run_waits_like_others),
        cmocka_unit_test(a_user_has_so_many_at_once),
        cmocka_unit_test(no_budget_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
