/* SPDX-License-Identifier: Apache-2.0 */
/* Pods as the engine names them: gangs stay in one, and its hosts need not be alike. */
#include "controller_support.h"

static const struct engine_simulated_host hosts[] = {
    {"a0", 4, true, "left"},  {"b0", 8, true, "right"}, {"a1", 4, true, "left"},
    {"b1", 2, true, "right"}, {"c0", 8, true, NULL},
};

static void open_pods(struct world *world)
{
    open_world_of(world, hosts, 5);
    open_controller(world);
}

/* The hosts of the present attempt, "a0 a1". */
static const char *hosts_of(struct world *world, int64_t run)
{
    static char text[256];
    struct registry_node *nodes;
    size_t count;
    assert_int_equal(registry_nodes(world->registry, run, run_of(world->registry, run).epoch, &nodes, &count, NULL),
                     WEFT_OK);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", nodes[i].host);
    free(nodes);
    return text;
}

static void hosts_are_in_the_pods_that_the_engine_names(void **state)
{
    struct world world;
    struct registry_host *list;
    size_t count;
    open_pods(&world);
    assert_int_equal(registry_hosts(world.registry, &list, &count, NULL), WEFT_OK);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        const char *pod = list[i].host[0] == 'a' ? "left" : list[i].host[0] == 'b' ? "right" : "pod";
        assert_string_equal(list[i].pod, pod);
    }
    free(list);
    close_world(&world);
}

static void a_gang_stays_in_one_pod(void **state)
{
    struct world world;
    struct registry_attempt *attempts;
    size_t count;
    open_pods(&world);
    int64_t left = give(&world, 2, 4, "", HOUR);
    pass(&world, BEGIN + SECOND);
    int64_t right = give(&world, 2, 2, "", HOUR), three = give(&world, 3, 2, "", HOUR);
    pass(&world, BEGIN + 2 * SECOND);
    assert_string_equal(hosts_of(&world, left), "a0 a1");
    assert_true(!strcmp(hosts_of(&world, right), "b0 b1") || !strcmp(hosts_of(&world, right), "b1 b0"));
    assert_int_equal(registry_attempts(world.registry, right, &attempts, &count, NULL), WEFT_OK);
    assert_string_equal(attempts[0].pod, "right");
    free(attempts);
    assert_int_equal(state_of(&world, three), RUN_CANCELLED); /* five hosts, but no Pod has three */
    assert_non_null(strstr(run_of(world.registry, three).detail, "no Pod has more than 2 such hosts"));
    close_world(&world);
}

/* What may span Pods has hosts of several where no Pod has enough of them, and of one where one has. */
static void a_gang_that_may_spans_pods(void **state)
{
    struct world world;
    open_pods(&world);
    int64_t narrow = give(&world, 2, 4, ",\"may_span_pods\":true", HOUR);
    pass(&world, BEGIN + SECOND);
    assert_string_equal(hosts_of(&world, narrow), "a0 a1");
    int64_t wide = give(&world, 4, 4, ",\"may_span_pods\":true", HOUR);
    pass(&world, BEGIN + 3 * SECOND);
    assert_why(&world, wide, "waits for 4 hosts with 4 slots each");
    pass(&world, BEGIN + 2 * HOUR);
    assert_string_equal(hosts_of(&world, wide), "a0 a1 b0 c0");
    pass(&world, BEGIN + 4 * HOUR);
    assert_int_equal(state_of(&world, wide), RUN_SUCCEEDED);
    close_world(&world);
}

/* A host has the slots that it has, not those of its neighbors. */
static void hosts_of_a_pod_may_differ(void **state)
{
    struct world world;
    open_pods(&world);
    int64_t runs[26];
    for (int i = 0; i < 26; i++) /* as many as there are slots: the engine refuses what is beyond a host's */
        runs[i] = give(&world, 1, 1, "", HOUR);
    int64_t more = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + SECOND);
    for (int i = 0; i < 26; i++)
        assert_int_equal(state_of(&world, runs[i]), RUN_RUNNING);
    assert_int_equal(state_of(&world, more), RUN_QUEUED);
    controller_close(world.controller); /* and the next one finds the same */
    open_controller(&world);
    pass(&world, BEGIN + 3 * HOUR);
    assert_int_equal(state_of(&world, more), RUN_SUCCEEDED);
    close_world(&world);
}

static void a_host_of_too_many_slots_is_refused(void **state)
{
    struct world world;
    struct error error = {0};
    const struct engine_simulated_host large[] = {{"a0", 65, true, "left"}};
    open_world_of(&world, large, 1);
    assert_int_equal(controller_open(&world.config, BEGIN, &world.controller, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "host 'a0' has 65 slots; 1 to 64 can be"));
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_in_the_pods_that_the_engine_names),
        cmocka_unit_test(a_gang_stays_in_one_pod),
        cmocka_unit_test(a_gang_that_may_spans_pods),
        cmocka_unit_test(hosts_of_a_pod_may_differ),
        cmocka_unit_test(a_host_of_too_many_slots_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
