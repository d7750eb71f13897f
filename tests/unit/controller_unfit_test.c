/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU is found ill: its host takes nothing new until a person resumes it, what runs there goes on, and both say why. */
#include "controller_support.h"

#define ILLNESS "GPU 1 (NVIDIA H100 80GB HBM3, GPU-8f3c): 2 uncorrectable memory errors since its driver was started"

/* Where node `node` of a run's attempt is. */
static const char *host_of_node(struct world *world, int64_t run, int64_t epoch, size_t node)
{
    static char host[PLATFORM_NAME_BYTES];
    struct registry_node *nodes;
    size_t count;
    assert_int_equal(registry_nodes(world->registry, run, epoch, &nodes, &count, NULL), WEFT_OK);
    assert_true(node < count);
    snprintf(host, sizeof host, "%s", nodes[node].host);
    free(nodes);
    return host;
}

static struct registry_host host_in(struct world *world, const char *name)
{
    struct registry_host host;
    assert_int_equal(registry_host_get(world->registry, name, &host, NULL), WEFT_OK);
    return host;
}

/* How many remarks of a run begin like this. */
static int remarks_like(struct world *world, int64_t run, const char *words)
{
    struct registry_event *list;
    size_t count;
    int found = 0;
    assert_int_equal(registry_run_events(world->registry, run, 0, 1000, &list, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        found += list[i].cause == RUN_CAUSE_NOTED && strncmp(list[i].detail, words, strlen(words)) == 0;
    free(list);
    return found;
}

static void resume_host(struct world *world, const char *host)
{
    CHANGE(world->registry, registry_host_resume(world->registry, host, "root", world->now, &error));
    assert_int_equal(controller_hosts_changed(world->controller, NULL), WEFT_OK);
}

static void its_host_takes_nothing_new_and_its_run_goes_on(void **state)
{
    struct world world;
    char ill[PLATFORM_NAME_BYTES], words[256];
    open_world(&world, 2, 2);
    const int64_t run = give(&world, 1, 2, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    snprintf(ill, sizeof ill, "%s", host_of_node(&world, run, 1, 0));
    assert_true(engine_simulated_sicken(world.engine, ill, ILLNESS));
    pass(&world, world.now + MINUTE);
    const struct registry_host host = host_in(&world, ill);
    assert_int_equal(host.state, REGISTRY_HOST_CORDONED);
    assert_string_equal(host.detail, ILLNESS);
    snprintf(words, sizeof words, "host %s is cordoned, nothing new starts there: " ILLNESS, ill);
    assert_int_equal(remarks_like(&world, run, words), 1);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    /* There is room for one of two on the other host, and not for a run that needs both. */
    const int64_t other = give(&world, 1, 2, "", 3 * HOUR), waits = give(&world, 1, 2, "", MINUTE),
                  wide = give(&world, 2, 1, "", MINUTE);
    pass(&world, BEGIN + 2 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    assert_int_equal(state_of(&world, waits), RUN_QUEUED);
    snprintf(words, sizeof words, "%s (cordoned); 'weft nodes resume' opens a cordoned one", ill);
    assert_why(&world, wide, words);
    resume_host(&world, ill);
    pass(&world, BEGIN + 3 * HOUR);
    assert_int_equal(state_of(&world, waits), RUN_SUCCEEDED);
    pass(&world, BEGIN + 5 * HOUR);
    assert_int_equal(state_of(&world, wide), RUN_SUCCEEDED);
    close_world(&world);
}

static void a_person_s_resumption_holds_until_another_attempt_finds_it(void **state)
{
    struct world world;
    open_world(&world, 1, 2);
    const int64_t run = give(&world, 1, 1, ",\"retries\":1", HOUR);
    world.code[run] = 1;
    pass(&world, BEGIN + 5 * SECOND);
    assert_true(engine_simulated_sicken(world.engine, "h0", ILLNESS));
    pass(&world, world.now + 5 * SECOND);
    assert_int_equal(host_in(&world, "h0").state, REGISTRY_HOST_CORDONED);
    resume_host(&world, "h0");
    world.durations[run] = 5 * HOUR; /* of its next attempt */
    /* Another server does not hear the record a second time. */
    controller_close(world.controller);
    open_controller(&world);
    pass(&world, BEGIN + HOUR / 2);
    assert_int_equal(host_in(&world, "h0").state, REGISTRY_HOST_UP);
    pass(&world, BEGIN + HOUR + 5 * MINUTE);
    assert_int_equal(run_of(world.registry, run).epoch, 2);
    assert_int_equal(host_in(&world, "h0").state, REGISTRY_HOST_UP);
    assert_true(engine_simulated_sicken(world.engine, "h0", ILLNESS));
    pass(&world, world.now + MINUTE);
    assert_int_equal(host_in(&world, "h0").state, REGISTRY_HOST_CORDONED);
    assert_int_equal(remarks_like(&world, run, "host h0 is cordoned"), 2);
    close_world(&world);
}

static void a_run_that_it_fails_is_tried_elsewhere(void **state)
{
    struct world world;
    char ill[PLATFORM_NAME_BYTES];
    open_world(&world, 2, 2);
    const int64_t run = give(&world, 1, 2, ",\"retries\":1", HOUR);
    world.code[run] = 1;
    pass(&world, BEGIN + MINUTE);
    snprintf(ill, sizeof ill, "%s", host_of_node(&world, run, 1, 0));
    pass(&world, BEGIN + HOUR - 1);
    assert_true(engine_simulated_sicken(world.engine, ill, ILLNESS)); /* the node's last words but one */
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_int_equal(run_of(world.registry, run).epoch, 2);
    assert_string_not_equal(host_of_node(&world, run, 2, 0), ill);
    close_world(&world);
}

static void the_host_of_the_node_that_found_it_is_cordoned(void **state)
{
    struct world world;
    char first[PLATFORM_NAME_BYTES], second[PLATFORM_NAME_BYTES];
    open_world(&world, 2, 2);
    const int64_t run = give(&world, 2, 2, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    snprintf(first, sizeof first, "%s", host_of_node(&world, run, 1, 0));
    snprintf(second, sizeof second, "%s", host_of_node(&world, run, 1, 1));
    assert_true(engine_simulated_sicken(world.engine, second, ""));
    pass(&world, world.now + MINUTE);
    assert_int_equal(host_in(&world, first).state, REGISTRY_HOST_UP);
    assert_int_equal(host_in(&world, second).state, REGISTRY_HOST_CORDONED);
    assert_string_equal(host_in(&world, second).detail, "a GPU is ill"); /* an agent of another version may say less */
    pass(&world, BEGIN + 2 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    close_world(&world);
}

static void a_host_that_is_closed_already_stays_as_it_is(void **state)
{
    struct world world;
    struct registry_host_event *events;
    size_t count;
    open_world(&world, 1, 2);
    const int64_t run = give(&world, 1, 2, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    CHANGE(world.registry, registry_host_drain(world.registry, "h0", "root", "a fan is loud", world.now, &error));
    assert_int_equal(controller_hosts_changed(world.controller, NULL), WEFT_OK);
    assert_true(engine_simulated_sicken(world.engine, "h0", ILLNESS));
    pass(&world, world.now + MINUTE);
    assert_int_equal(host_in(&world, "h0").state, REGISTRY_HOST_DRAINED);
    assert_string_equal(host_in(&world, "h0").detail, "a fan is loud");
    assert_int_equal(registry_host_events(world.registry, "h0", 0, 1, &events, &count, NULL), WEFT_OK);
    assert_true(count == 1 && strcmp(events[0].what, "failure") == 0 && strcmp(events[0].detail, ILLNESS) == 0);
    free(events);
    assert_int_equal(remarks_like(&world, run, "host h0 takes nothing new already: " ILLNESS), 1);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_host_takes_nothing_new_and_its_run_goes_on),
        cmocka_unit_test(a_person_s_resumption_holds_until_another_attempt_finds_it),
        cmocka_unit_test(a_run_that_it_fails_is_tried_elsewhere),
        cmocka_unit_test(the_host_of_the_node_that_found_it_is_cordoned),
        cmocka_unit_test(a_host_that_is_closed_already_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
