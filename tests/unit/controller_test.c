/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller between a registry and a simulated engine, in virtual time: runs start, give way, end and are run
 * again; hosts fail; the controller itself dies at any time and another one goes on.
 */
#include "base/random.h"
#include "controller_support.h"
#include "platform/registry/slot_set.h"

/* ---- one after another ---- */

static void a_run_starts_and_ends(void **state)
{
    struct world world;
    open_world(&world, 2, 8);
    int64_t one = give(&world, 1, 4, "", HOUR), both = give(&world, 2, 8, "", HOUR);
    pass(&world, BEGIN + 1000);
    assert_int_equal(state_of(&world, one), RUN_RUNNING);
    assert_int_equal(state_of(&world, both), RUN_QUEUED); /* a gang: both hosts or none */
    char why[512];
    assert_int_equal(controller_why(world.controller, both, world.now, why, sizeof why, NULL), WEFT_OK);
    assert_non_null(strstr(why, "waits for 2 hosts of one Pod with 8 slots each"));
    pass(&world, BEGIN + HOUR + 5000);
    assert_int_equal(state_of(&world, one), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, both), RUN_RUNNING);
    pass(&world, BEGIN + 3 * HOUR);
    assert_int_equal(state_of(&world, both), RUN_SUCCEEDED);
    close_world(&world);
}

static void a_program_that_fails_is_run_again_as_often_as_asked(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    int64_t once = give(&world, 1, 1, "", 1000), thrice = give(&world, 1, 1, ",\"retries\":2", 1000);
    world.code[once] = world.code[thrice] = 3;
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, once), RUN_FAILED);
    assert_int_equal(state_of(&world, thrice), RUN_FAILED);
    assert_int_equal(world.attempts[once], 1);
    assert_int_equal(world.attempts[thrice], 3);
    close_world(&world);
}

static void a_run_whose_host_fails_runs_again_elsewhere(void **state)
{
    struct world world;
    open_world(&world, 3, 8);
    int64_t run = give(&world, 2, 8, "", 10 * HOUR);
    pass(&world, BEGIN + HOUR);
    struct registry_node *nodes;
    size_t count;
    assert_int_equal(registry_nodes(world.registry, run, 1, &nodes, &count, NULL), WEFT_OK);
    char broken[PLATFORM_NAME_BYTES];
    snprintf(broken, sizeof broken, "%s", nodes[1].host);
    free(nodes);
    assert_true(engine_simulated_fail(world.engine, broken, "its power supply"));
    CHANGE(world.registry, registry_host_drain(world.registry, broken, "root", "", world.now, &error));
    assert_int_equal(controller_hosts_changed(world.controller, NULL), WEFT_OK);
    pass(&world, BEGIN + 2 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    assert_true(has_event(&world, run, RUN_CAUSE_NODE_LOST));
    assert_int_equal(world.attempts[run], 2);
    pass(&world, BEGIN + 20 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    close_world(&world);
}

/* The host is up again at once, and as fit as the others for all that the scheduler counts. */
static void a_host_that_has_failed_a_run_is_its_last_choice(void **state)
{
    struct world world;
    open_world(&world, 3, 8);
    int64_t run = give(&world, 1, 8, "", 10 * HOUR);
    char hosts[3][PLATFORM_NAME_BYTES];
    for (int attempt = 0; attempt < 3; attempt++) {
        struct registry_node *nodes;
        size_t count;
        pass(&world, world.now + HOUR);
        assert_int_equal(state_of(&world, run), RUN_RUNNING);
        assert_int_equal(registry_nodes(world.registry, run, attempt + 1, &nodes, &count, NULL), WEFT_OK);
        snprintf(hosts[attempt], sizeof hosts[attempt], "%s", nodes[0].host);
        free(nodes);
        for (int before = 0; before < attempt; before++)
            assert_string_not_equal(hosts[attempt], hosts[before]);
        assert_true(engine_simulated_fail(world.engine, hosts[attempt], "its power supply"));
        assert_true(engine_simulated_fail(world.engine, hosts[attempt], NULL));
    }
    close_world(&world);
}

static void a_long_run_gives_way_and_comes_back(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    for (int i = 0; i < 40; i++) { /* a history of short runs */
        give(&world, 1, 1, "", 60000);
        pass(&world, world.now + 70000);
    }
    int64_t old = give(&world, 1, 1, ",\"preemptible\":true", 500 * HOUR);
    pass(&world, world.now + 100 * HOUR);
    assert_int_equal(state_of(&world, old), RUN_RUNNING);
    int64_t new = give(&world, 1, 1, "", 60000);
    pass(&world, world.now + HOUR);
    assert_int_equal(state_of(&world, new), RUN_SUCCEEDED);
    assert_true(has_event(&world, old, RUN_CAUSE_PREEMPT));
    assert_true(has_event(&world, old, RUN_CAUSE_VACATED));
    assert_int_equal(state_of(&world, old), RUN_RUNNING); /* again */
    assert_int_equal(world.attempts[old], 2);
    close_world(&world);
}

static void a_person_cancels(void **state)
{
    struct world world;
    struct error error = {0};
    open_world(&world, 1, 1);
    int64_t runs = give(&world, 1, 1, "", HOUR), waits = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + 1000);
    assert_int_equal(controller_cancel(world.controller, waits, "ada", world.now, &error), WEFT_OK);
    assert_int_equal(state_of(&world, waits), RUN_CANCELLED);
    assert_int_equal(controller_cancel(world.controller, runs, "ada", world.now, &error), WEFT_OK);
    assert_int_equal(state_of(&world, runs), RUN_STOPPING);
    pass(&world, BEGIN + 60000);
    assert_int_equal(state_of(&world, runs), RUN_CANCELLED);
    assert_int_equal(controller_cancel(world.controller, runs, "ada", world.now, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "has ended already: cancelled"));
    close_world(&world);
}

static void a_time_slice_ends_when_others_wait(void **state)
{
    struct world world;
    open_world(&world, 1, 1);
    int64_t long_run = give(&world, 1, 1, ",\"time_slice\":\"2h\"", 30 * HOUR);
    pass(&world, BEGIN + 5 * HOUR);
    assert_int_equal(world.attempts[long_run], 1); /* nobody waits */
    int64_t other = give(&world, 1, 1, "", HOUR);
    pass(&world, world.now + HOUR / 2);
    assert_true(has_event(&world, long_run, RUN_CAUSE_SLICE_END));
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    close_world(&world);
}

/* ---- whatever comes ---- */

/* Runs come, hosts fail and return, people cancel, controllers die: in the end all have ended, each as it should. */
static void whatever_comes(uint64_t seed)
{
    struct world world;
    uint64_t n = 0;
#define DRAW(bound) random_below(seed, n++, bound)
    uint32_t hosts = 1 + (uint32_t)DRAW(4), slots = 1 + (uint32_t)DRAW(8);
    open_world(&world, hosts, slots);
    int64_t runs[60];
    bool cancelled[60] = {false};
    size_t count = 0;
    for (int event = 0; event < 120; event++) {
        uint64_t what = DRAW(10);
        if (what < 5 && count < 60) {
            bool wide = DRAW(3) == 0;
            uint64_t longest = DRAW(2) ? 600000 : 20 * (uint64_t)HOUR;
            const char *more = DRAW(2) ? ",\"preemptible\":true" : DRAW(2) ? ",\"time_slice\":\"1h\"" : "";
            int64_t nodes = wide ? 1 + (int64_t)DRAW(hosts) : 1, each = wide ? slots : 1 + (int64_t)DRAW(slots);
            runs[count++] = give(&world, nodes, each, more, (int64_t)DRAW(longest));
        } else if (what == 5) {
            char host[8];
            snprintf(host, sizeof host, "h%u", (unsigned)DRAW(hosts));
            engine_simulated_fail(world.engine, host, DRAW(2) ? "a test" : NULL);
        } else if (what == 6 && count) {
            size_t i = DRAW(count);
            if (!run_state_is_final(state_of(&world, runs[i])))
                cancelled[i] =
                    controller_cancel(world.controller, runs[i], "ada", world.now, NULL) == WEFT_OK || cancelled[i];
        } else if (what == 7) {
            controller_close(world.controller);
            open_controller(&world);
        }
        uint64_t most = DRAW(2) ? 10000 : 2 * (uint64_t)HOUR;
        pass(&world, world.now + (int64_t)DRAW(most));
    }
    for (uint32_t h = 0; h < hosts; h++) {
        char host[8];
        struct registry_host found;
        snprintf(host, sizeof host, "h%u", h);
        engine_simulated_fail(world.engine, host, NULL);
        assert_int_equal(registry_host_get(world.registry, host, &found, NULL), WEFT_OK);
        if (found.state != REGISTRY_HOST_UP)
            CHANGE(world.registry, registry_host_resume(world.registry, host, "root", world.now, &error));
    }
    assert_int_equal(controller_hosts_changed(world.controller, NULL), WEFT_OK);
    pass(&world, world.now + 3000 * HOUR);
    for (size_t i = 0; i < count; i++) {
        struct registry_run run = run_of(world.registry, runs[i]);
        if (!run_state_is_final(run.state))
            fail_msg("seed %" PRIu64 ": run %" PRId64 " is still %s (%s)", seed, runs[i], run_state_name(run.state),
                     run.detail);
        /* What was not cancelled has succeeded, unless hosts failed under it too often. */
        bool given_up = has_event(&world, runs[i], RUN_CAUSE_GIVEN_UP);
        if (cancelled[i] ? run.state == RUN_FAILED : run.state != RUN_SUCCEEDED)
            assert_true(given_up);
        else
            assert_true(run.served <= world.durations[runs[i]] + 60000 * run.epoch);
    }
    close_world(&world);
#undef DRAW
}

static void all_ends_well_whatever_comes(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++)
        whatever_comes(seed);
}

static void sets_of_slots(void **state)
{
    char text[SLOT_SET_TEXT_BYTES];
    uint64_t set;
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t bits = random_bits(1, i) & random_bits(2, i % 7);
        assert_true(slot_set_read(slot_set_write(bits, text), &set));
        assert_true(set == bits);
    }
    assert_string_equal(slot_set_write(0x4f, text), "0-3,6");
    assert_true(slot_set_choose(0x5, 8, 3) == 0x1a);
    assert_true(slot_set_choose(0xfe, 8, 2) == 0);
    static const char *const wrong[] = {"a", "1-", "-1", "3-1", "64", "1,,2", "1,", "1 2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(slot_set_read(wrong[i], &set));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_of_slots),
        cmocka_unit_test(a_run_starts_and_ends),
        cmocka_unit_test(a_program_that_fails_is_run_again_as_often_as_asked),
        cmocka_unit_test(a_run_whose_host_fails_runs_again_elsewhere),
        cmocka_unit_test(a_host_that_has_failed_a_run_is_its_last_choice),
        cmocka_unit_test(a_long_run_gives_way_and_comes_back),
        cmocka_unit_test(a_person_cancels),
        cmocka_unit_test(a_time_slice_ends_when_others_wait),
        cmocka_unit_test(all_ends_well_whatever_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
