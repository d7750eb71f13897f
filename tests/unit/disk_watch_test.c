/* SPDX-License-Identifier: Apache-2.0 */
/* A run over its quota is stopped, also if the first attempt to do so fails; the largest runs; the server's reserve. */
#include "platform/service/internal/disk.h"

#include "controller_support.h"

#include <poll.h>
#include <sys/stat.h>

#define MIB (1 << 20)

static void count_wake(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

/* Wait until `count` runs have been found to take too much. */
static void wait_for(atomic_int *wakes, int count)
{
    for (int tries = 0; atomic_load(wakes) < count; tries++) {
        assert_true(tries < 6000);
        poll(NULL, 0, 10);
    }
}

/* Have a run take so many bytes on disk. */
static void write_file(const struct world *world, int64_t run, size_t bytes)
{
    char name[64];
    char *content = calloc(1, bytes);
    assert_non_null(content);
    mkdir(world->runs, 0700);
    snprintf(name, sizeof name, "runs/%" PRId64, run);
    mkdir(temporary_path(world->directory, name), 0700); /* the controller makes it for a run that starts */
    snprintf(name, sizeof name, "runs/%" PRId64 "/file", run);
    temporary_file(world->directory, name, content, bytes);
    free(content);
}

static void a_run_that_could_not_be_stopped_is_stopped_later(void **state)
{
    (void)state;
    struct world world;
    atomic_int wakes = 0;
    struct error error = {0};
    open_world(&world, 1, 2);
    const int64_t run = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + SECOND);
    write_file(&world, run, 3 * MIB);
    const struct disk_use_config config = {
        .directory = world.directory, .runs = world.runs, .run_quota = MIB, .wake = count_wake, .context = &wakes};
    struct disk_watch watch = {0};
    assert_int_equal(disk_space_open(world.directory, MIB, &watch.space, NULL), WEFT_OK);
    assert_int_equal(disk_use_open(&config, &watch.use, NULL), WEFT_OK);
    assert_int_equal(disk_use_start(watch.use, NULL), WEFT_OK);
    wait_for(&wakes, 1);
    disk_use_stop(watch.use);
    /* The registry takes no change now, as on a full disk. */
    assert_int_equal(database_begin(world.registry, DATABASE_DURABLE, NULL), WEFT_OK);
    assert_int_not_equal(disk_watch_heed(&watch, world.controller, world.now, &error), WEFT_OK);
    assert_int_equal(database_end(world.registry, WEFT_OK, NULL), WEFT_OK);
    assert_int_equal(disk_watch_heed(&watch, world.controller, world.now, NULL), WEFT_OK);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(state_of(&world, run), RUN_FAILED);
    assert_non_null(strstr(run_of(world.registry, run).detail, "more than its quota of 1 MiB"));
    disk_use_close(watch.use);
    disk_space_close(watch.space);
    close_world(&world);
}

static void runs_of_the_same_size_are_all_named(void **state)
{
    (void)state;
    struct world world;
    struct disk_use *use = NULL;
    atomic_int wakes = 0;
    char text[192];
    open_world(&world, 1, 4);
    for (int i = 0; i < 4; i++) {
        const int64_t run = give(&world, 1, 1, "", HOUR);
        write_file(&world, run, 2 * MIB);
    }
    pass(&world, BEGIN + SECOND);
    const struct disk_use_config config = {
        .directory = world.directory, .runs = world.runs, .run_quota = MIB, .wake = count_wake, .context = &wakes};
    assert_int_equal(disk_use_open(&config, &use, NULL), WEFT_OK);
    assert_int_equal(disk_use_start(use, NULL), WEFT_OK);
    wait_for(&wakes, 4);
    disk_use_largest(use, text, sizeof text);
    assert_non_null(strstr(text, "run 1 ("));
    assert_non_null(strstr(text, "run 2 ("));
    assert_non_null(strstr(text, "run 3 ("));
    assert_null(strstr(text, "run 4 ("));
    disk_use_close(use);
    close_world(&world);
}

static void a_reserve_that_was_not_allocated_is_allocated(void **state)
{
    struct disk_space *space = NULL;
    struct stat about;
    const char *path = temporary_file(*state, "reserve", "", 0);
    assert_int_equal(disk_space_open(*state, MIB, &space, NULL), WEFT_OK);
    disk_space_look(space);
    assert_int_equal(stat(path, &about), 0);
    assert_true(about.st_size >= MIB);
    disk_space_close(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_could_not_be_stopped_is_stopped_later),
        cmocka_unit_test(runs_of_the_same_size_are_all_named),
        in_temporary_directory(a_reserve_that_was_not_allocated_is_allocated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
