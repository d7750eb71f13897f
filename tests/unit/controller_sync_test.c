/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps of the controller sync the disk: those of consequence, and no other; and how often the others write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "controller_support.h"

static int syncs; /* of the database, which come through here */

__attribute__((visibility("default"))) int fdatasync(int file)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, file);
}

/* The last record of a run's first node that was dealt with. */
static int64_t dealt(struct world *world, int64_t run)
{
    struct registry_node *nodes;
    size_t count;
    assert_int_equal(registry_nodes(world->registry, run, 1, &nodes, &count, NULL), WEFT_OK);
    assert_true(count > 0);
    const int64_t sequence = nodes[0].sequence;
    free(nodes);
    return sequence;
}

static int syncs_until(struct world *world, int64_t moment)
{
    syncs = 0;
    pass(world, moment);
    return syncs;
}

/* One whose nodes say every ten seconds that they live. */
static void open_living_world(struct world *world)
{
    const struct engine_simulated_host host = {"h0", 8, true, NULL};
    const struct engine_simulated_config config = {.hosts = &host,
                                                   .host_count = 1,
                                                   .begin = (uint64_t)BEGIN,
                                                   .start_takes = 10,
                                                   .heartbeat = 10000,
                                                   .behave = behave,
                                                   .context = world};
    open_world_of(world, &host, 1);
    world->engine->close(world->engine);
    assert_int_equal(engine_simulated_open(&config, &world->engine, NULL), WEFT_OK);
    world->config.engine = world->engine;
    open_controller(world);
}

static void only_steps_of_consequence_are_synced(void **state)
{
    struct world world;
    open_living_world(&world);
    const int64_t run = give(&world, 1, 1, "", 10 * MINUTE);
    assert_true(syncs_until(&world, BEGIN + 5 * SECOND) > 0); /* placed and started */
    assert_int_equal(state_of(&world, run), RUN_RUNNING);
    const int64_t before = dealt(&world, run);
    assert_int_equal(syncs_until(&world, BEGIN + 5 * MINUTE), 0);
    const int64_t after = dealt(&world, run);
    assert_true(after > before + 20); /* heartbeats, which a killed controller need not hear again */
    controller_close(world.controller);
    open_controller(&world);
    assert_int_equal(syncs_until(&world, BEGIN + 6 * MINUTE), 0);
    assert_true(dealt(&world, run) > after);
    assert_true(syncs_until(&world, BEGIN + 11 * MINUTE) > 0); /* its end */
    assert_int_equal(state_of(&world, run), RUN_SUCCEEDED);
    close_world(&world);
}

/* Records that were reported, and the number of the last. */
struct told {
    int64_t records, last;
};

static weft_status tell(void *context, int64_t run, int64_t epoch, uint32_t node, const struct journal_record *record,
                        struct error *error)
{
    struct told *told = context;
    told->records++;
    told->last = (int64_t)record->sequence;
    return WEFT_OK;
}

static void what_is_of_no_consequence_is_noted_once_a_minute(void **state)
{
    struct world world;
    struct told told = {0};
    open_living_world(&world);
    controller_close(world.controller);
    world.config.sink = tell;
    world.config.context = &told;
    open_controller(&world);
    const int64_t run = give(&world, 1, 1, "", 10 * MINUTE);
    pass(&world, BEGIN + 5 * SECOND);
    int64_t noted = dealt(&world, run);
    int notes = 0;
    for (int64_t at = BEGIN + 10 * SECOND; at <= BEGIN + 5 * MINUTE; at += SECOND) {
        pass(&world, at);
        const int64_t now = dealt(&world, run);
        notes += now != noted;
        noted = now;
    }
    assert_in_range(notes, 4, 5);
    assert_int_equal(told.last, told.records); /* each of them once */
    assert_true(told.last > noted);

    const int64_t last = told.last;
    told = (struct told){0};
    controller_close(world.controller);
    open_controller(&world);
    pass(&world, BEGIN + 5 * MINUTE + 2 * SECOND);
    assert_int_equal(told.records, told.last - noted); /* those after what was noted, again, and those that are new */
    assert_true(told.last >= last);
    pass(&world, BEGIN + 11 * MINUTE);
    assert_int_equal(dealt(&world, run), told.last); /* with its end */
    close_world(&world);
}

static void a_stop_is_synced_before_it_is_told(void **state)
{
    struct world world;
    open_world(&world, 1, 8);
    const int64_t run = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    syncs = 0;
    assert_int_equal(controller_cancel(world.controller, run, "ada", world.now, NULL), WEFT_OK);
    assert_true(syncs > 0);
    assert_true(syncs_until(&world, BEGIN + 2 * MINUTE) > 0);
    assert_int_equal(state_of(&world, run), RUN_CANCELLED);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_steps_of_consequence_are_synced),
        cmocka_unit_test(what_is_of_no_consequence_is_noted_once_a_minute),
        cmocka_unit_test(a_stop_is_synced_before_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
