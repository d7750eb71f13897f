/* SPDX-License-Identifier: Apache-2.0 */
/* The server is started on other hosts than the last time: what runs goes on, what waits goes on waiting. */
#include "controller_support.h"

static weft_status (*all_hosts)(struct engine *engine, engine_host_visit *visit, void *context, struct error *error);
static bool hide_second;
static uint32_t first_slots;
static int64_t processors, memory, second_memory;

struct hiding {
    engine_host_visit *visit;
    void *context;
};

static bool visit_shown(void *context, const struct engine_host *host)
{
    struct hiding *hiding = context;
    struct engine_host shown = *host;
    if (hide_second && strcmp(host->name, "h1") == 0)
        return true;
    if (first_slots && strcmp(host->name, "h0") == 0)
        shown.slots = first_slots;
    shown.processors = processors;
    shown.memory = second_memory && strcmp(host->name, "h1") == 0 ? second_memory : memory;
    return hiding->visit(hiding->context, &shown);
}

static weft_status shown_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    struct hiding hiding = {visit, context};
    return all_hosts(engine, visit_shown, &hiding, error);
}

/* Two hosts with two slots. */
static void open_two(struct world *world)
{
    prepare_world(world, 2, 2);
    all_hosts = world->engine->hosts;
    world->engine->hosts = shown_hosts;
    hide_second = false;
    first_slots = 0;
    processors = memory = second_memory = 0;
    open_controller(world);
}

static void reopen(struct world *world)
{
    controller_close(world->controller);
    open_controller(world);
}

static void set_drained(struct world *world, const char *host, bool drained)
{
    if (drained)
        CHANGE(world->registry, registry_host_drain(world->registry, host, "root", "", world->now, &error));
    else
        CHANGE(world->registry, registry_host_resume(world->registry, host, "root", world->now, &error));
    assert_int_equal(controller_hosts_changed(world->controller, NULL), WEFT_OK);
}

static void a_run_waits_for_hosts_that_the_server_is_started_without(void **state)
{
    struct world world;
    open_two(&world);
    set_drained(&world, "h0", true);
    int64_t wide = give(&world, 2, 2, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    assert_why(&world, wide, "waits for 2 hosts of one Pod with 2 slots each; only 1 takes runs now");
    assert_why(&world, wide, "h0 (drained)");
    hide_second = true;
    reopen(&world);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, wide), RUN_QUEUED);
    assert_why(&world, wide, "h0 (drained), h1 (lost)");
    assert_why(&world, wide,
               "'weft nodes resume' opens a drained one, a lost one is back when the server is started with it");
    /* It stands in nobody's way, and nobody is promised what is not there. */
    set_drained(&world, "h0", false);
    int64_t small = give(&world, 1, 2, "", HOUR);
    struct run_specification specification =
        specification_of("{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"train\"],\"nodes\":2,\"slots\":2}");
    struct error error = {0};
    assert_int_equal(controller_check(world.controller, &specification, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "no Pod has more than 1 such host besides those that are lost"));
    run_specification_free(&specification);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, small), RUN_RUNNING);
    hide_second = false;
    reopen(&world);
    pass(&world, world.now + 2 * HOUR);
    assert_int_equal(state_of(&world, wide), RUN_SUCCEEDED);
    close_world(&world);
}

static void a_run_waits_where_its_host_was_forgotten_and_its_class_is_gone(void **state)
{
    static const struct controller_class night[] = {{.name = "night"}}, day[] = {{.name = "day"}, {.name = "batch"}};
    struct world world;
    open_two(&world);
    set_drained(&world, "h0", true);
    int64_t wide = give(&world, 2, 2, "", HOUR), other = give(&world, 2, 1, ",\"class\":\"night\"", HOUR);
    pass(&world, BEGIN + MINUTE);
    hide_second = true;
    world.config.classes = day;
    world.config.class_count = 2;
    reopen(&world);
    CHANGE(world.registry, registry_host_remove(world.registry, "h1", "root", world.now, &error));
    assert_int_equal(controller_hosts_changed(world.controller, NULL), WEFT_OK);
    reopen(&world);
    pass(&world, world.now + MINUTE);
    assert_int_equal(state_of(&world, wide), RUN_QUEUED);
    assert_why(&world, wide, "cannot run as the server was started: 2 nodes with 2 slots each were asked for");
    assert_why(&world, other, "there is no class 'night' of runs");
    assert_int_equal(controller_cancel(world.controller, wide, "ada", world.now, NULL), WEFT_OK);
    assert_int_equal(state_of(&world, wide), RUN_CANCELLED);
    hide_second = false;
    world.config.classes = night;
    world.config.class_count = 1;
    reopen(&world);
    set_drained(&world, "h0", false);
    pass(&world, world.now + 2 * HOUR);
    assert_int_equal(state_of(&world, other), RUN_SUCCEEDED);
    close_world(&world);
}

static void a_run_goes_on_where_the_server_is_started_without_its_host(void **state)
{
    struct world world;
    struct error error = {0};
    open_two(&world);
    int64_t wide = give(&world, 2, 2, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(state_of(&world, wide), RUN_RUNNING);
    hide_second = true;
    reopen(&world);
    assert_int_equal(registry_host_remove(world.registry, "h1", "root", world.now, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "run 1 has not ended there; stop it first"));
    int64_t small = give(&world, 1, 2, "", HOUR);
    pass(&world, world.now + HOUR / 2);
    assert_int_equal(state_of(&world, wide), RUN_RUNNING);
    assert_int_equal(state_of(&world, small), RUN_QUEUED);
    pass(&world, world.now + HOUR);
    assert_int_equal(state_of(&world, wide), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, small), RUN_RUNNING);
    close_world(&world);
}

static void a_run_goes_on_where_its_host_has_fewer_slots(void **state)
{
    struct world world;
    open_two(&world);
    set_drained(&world, "h1", true);
    int64_t run = give(&world, 1, 2, ",\"retries\":1", HOUR);
    world.code[run] = 1;
    pass(&world, BEGIN + MINUTE);
    first_slots = 1;
    hide_second = true;
    reopen(&world);
    int64_t small = give(&world, 1, 1, "", HOUR);
    pass(&world, world.now + HOUR / 2);
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    assert_int_equal(state_of(&world, small), RUN_QUEUED); /* its slot is not free yet */
    pass(&world, BEGIN + HOUR + MINUTE);
    assert_int_equal(state_of(&world, run), RUN_REQUEUED);
    assert_int_equal(state_of(&world, small), RUN_RUNNING);
    assert_why(&world, run, "h1 (lost, drained)");
    first_slots = 0;
    reopen(&world);
    world.code[run] = 0;
    pass(&world, world.now + 3 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    close_world(&world);
}

static void a_host_that_was_cordoned_is_not_called_drained(void **state)
{
    struct world world;
    struct registry_node *nodes;
    char failed[PLATFORM_NAME_BYTES], closed[128];
    size_t count;
    open_two(&world);
    controller_close(world.controller);
    world.config.cordon_most = 1;
    open_controller(&world);
    int64_t run = give(&world, 1, 2, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(registry_nodes(world.registry, run, 1, &nodes, &count, NULL), WEFT_OK);
    snprintf(failed, sizeof failed, "%s", nodes[0].host);
    free(nodes);
    assert_true(engine_simulated_fail(world.engine, failed, "its power supply"));
    assert_true(engine_simulated_fail(world.engine, failed, NULL));
    int64_t wide = give(&world, 2, 2, "", HOUR);
    pass(&world, world.now + MINUTE);
    snprintf(closed, sizeof closed, "closed: %s (cordoned); 'weft nodes resume' opens a cordoned one", failed);
    assert_why(&world, wide, closed);
    set_drained(&world, strcmp(failed, "h0") == 0 ? "h1" : "h0", true);
    pass(&world, world.now + MINUTE);
    assert_why(&world, wide, "'weft nodes resume' opens a drained or a cordoned one");
    set_drained(&world, "h0", false);
    set_drained(&world, "h1", false);
    pass(&world, world.now + 2 * HOUR);
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    assert_true(run_of(world.registry, wide).started != 0);
    close_world(&world);
}

/* What controller_check() says of a run of so many nodes and slots with these further keys; "" where it may come. */
static const char *said_of(struct world *world, int64_t nodes, int64_t slots, const char *more)
{
    static struct error error;
    char text[256];
    snprintf(text, sizeof text,
             "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"train\"],\"nodes\":%" PRId64
             ",\"slots\":%" PRId64 "%s}",
             nodes, slots, more);
    struct run_specification specification = specification_of(text);
    error = (struct error){0};
    weft_status status = controller_check(world->controller, &specification, &error);
    assert_int_equal(status, *error.text ? WEFT_ERROR_ARGUMENT : WEFT_OK);
    run_specification_free(&specification);
    return error.text;
}

static void processors_and_memory_go_with_slots(void **state)
{
    struct world world;
    open_two(&world);
    assert_string_equal(said_of(&world, 1, 1, ",\"processors\":64,\"memory\":1073741824"), ""); /* nothing is known */
    processors = 6;
    memory = INT64_C(24) << 30;
    reopen(&world);
    assert_string_equal(said_of(&world, 2, 1, ",\"processors\":3,\"memory\":12884901888"), "");
    assert_string_equal(said_of(&world, 2, 1, ",\"processors\":4"),
                        "a node asks for 4 processors, but 1 slot of host 'h0', which has 2 slots and 6 processors, "
                        "comes with 3 processors: ask for at least 2 slots a node, or for less");
    assert_string_equal(said_of(&world, 1, 1, ",\"memory\":12884901889"),
                        "a node asks for 12.0 GiB, but 1 slot of host 'h0', which has 2 slots and 24 GiB, comes with "
                        "12 GiB: ask for at least 2 slots a node, or for less");
    assert_string_equal(said_of(&world, 1, 2, ",\"memory\":1099511627776"),
                        "a node asks for 1 TiB, but 2 slots of host 'h0', which has 2 slots and 24 GiB, come with "
                        "24 GiB: no number of slots here comes with so much: ask for less");
    /* It may be placed on either host, so what was promised holds on both; one that is lost does not count. */
    second_memory = INT64_C(8) << 30;
    reopen(&world);
    assert_non_null(strstr(said_of(&world, 1, 1, ",\"memory\":8589934592"), "1 slot of host 'h1'"));
    hide_second = true;
    reopen(&world);
    assert_string_equal(said_of(&world, 1, 1, ",\"memory\":8589934592"), "");
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors_and_memory_go_with_slots),
        cmocka_unit_test(a_run_waits_for_hosts_that_the_server_is_started_without),
        cmocka_unit_test(a_run_waits_where_its_host_was_forgotten_and_its_class_is_gone),
        cmocka_unit_test(a_run_goes_on_where_the_server_is_started_without_its_host),
        cmocka_unit_test(a_run_goes_on_where_its_host_has_fewer_slots),
        cmocka_unit_test(a_host_that_was_cordoned_is_not_called_drained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
