/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making communicators: all ranks come to the same end, within the limit of operations; a late rank is named on stderr
 * first, and calls that do not fit together are recognized as those of other operations are.
 */
#include "../world.h"
#include "base/clock.h"
#include "core/collective/communicator/context.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RANKS_MOST 5
#define PATIENCE   20.0 /* seconds for what must happen soon */

enum making { SPLIT, DUPLICATE, SUBSET, MAKINGS };

static const char *const names[MAKINGS] = {"split()", "duplicate()", "subset()"};

/* The argument of every body. */
struct scene {
    enum making making;
    const char *output; /* where standard error goes */
};

static weft_status make(enum making making, weft_comm *comm, weft_comm **result)
{
    int ranks[RANKS_MOST], count = weft_comm_size(comm);
    for (int i = 0; i < count; i++)
        ranks[i] = i;
    switch (making) {
    case SPLIT:
        return weft_comm_split(comm, 0, 0, result);
    case DUPLICATE:
        return weft_comm_duplicate(comm, result);
    default:
        return weft_comm_subset(comm, ranks, count, result);
    }
}

static bool says(const weft_context *context, const char *words)
{
    return strstr(weft_message(context), words) != NULL;
}

/* Every world that the tests run in: shared memory and the fabric, threads and processes. */
static const struct world worlds[] = {
    {.ranks = 2},
    {.ranks = 3},
    {.ranks = 5, .processes = true},
    {.ranks = 3, .ranks_per_node = 1},
    {.ranks = 4, .ranks_per_node = 2, .processes = true},
};
#define WORLDS ((int)(sizeof worlds / sizeof *worlds))

/* What is tried in every world. */
struct trial {
    world_body body;
    enum making making;
    double time_limit;
};

static int try_in_world(int number, const void *argument)
{
    const struct trial *trial = argument;
    struct scene scene = {trial->making, NULL};
    struct world world = worlds[number];
    world.time_limit = trial->time_limit;
    return world_run(&world, trial->body, &scene);
}

static void run_everywhere(world_body body, double time_limit)
{
    for (enum making making = 0; making < MAKINGS; making++)
        assert_int_equal(world_at_once(WORLDS, try_in_world, &(struct trial){body, making, time_limit}), 0);
}

/* Rank 0 comes when the others have given up. */
static int give_up(weft_context *context, int rank, void *argument)
{
    const struct scene *scene = argument;
    weft_comm *world = weft_world(context), *made = NULL;
    uint64_t began = clock_now();
    while (rank == 0 && !control_failed(context->control) && clock_now() - began < PATIENCE * 1e9)
        usleep(1000);
    CHECK(make(scene->making, world, &made) == WEFT_ERROR_TIMEOUT);
    CHECK(!made);
    CHECK(says(context, names[scene->making]) && says(context, "1 of world") && says(context, "time limit"));
    CHECK(says(context, "for rank 0 on host") && says(context, "has not called"));
    char kept[1024];
    snprintf(kept, sizeof kept, "%s", weft_message(context));
    CHECK(weft_barrier(world) == WEFT_ERROR_TIMEOUT && strcmp(kept, weft_message(context)) == 0);
    CHECK((double)(clock_now() - began) * 1e-9 < PATIENCE);
    return 0;
}

static void test_all_ranks_fail_when_one_is_too_late(void **state)
{
    run_everywhere(give_up, 1.2);
}

static bool file_has(const char *path, const char *words, const char *others)
{
    char line[2048];
    bool found = false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, words) && strstr(line, others);
    if (file)
        fclose(file);
    return found;
}

/* Rank 0 comes when another has said that it waits, and the time in which ranks must meet has passed several times. */
static int warn(weft_context *context, int rank, void *argument)
{
    const struct scene *scene = argument;
    weft_comm *made = NULL;
    uint64_t began = clock_now();
    context->rendezvous_limit = 0.1;
    context->late_seconds = 0.3;
    while (rank == 0 &&
           !(file_has(scene->output, names[scene->making], "for rank 0 on host") && clock_now() - began > 600000000u)) {
        CHECK(clock_now() - began < PATIENCE * 1e9);
        usleep(10000);
    }
    CHECK(make(scene->making, weft_world(context), &made) == WEFT_OK);
    CHECK(weft_barrier(made) == WEFT_OK && weft_comm_size(made) == weft_comm_size(weft_world(context)));
    CHECK(weft_comm_free(made) == WEFT_OK);
    return 0;
}

/* Its standard error goes to a file. */
static int warn_in_world(int number, const void *argument)
{
    char path[] = "/tmp/weft-making-XXXXXX", text[4096] = "";
    const int file = mkstemp(path), kept = dup(STDERR_FILENO);
    struct scene scene = {*(const enum making *)argument, path};
    struct world world = worlds[number];
    world.time_limit = 2 * PATIENCE;
    if (file < 0 || kept < 0 || dup2(file, STDERR_FILENO) < 0)
        return 1;
    const int failed = world_run(&world, warn, &scene);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    if (failed && pread(file, text, sizeof text - 1, 0) > 0)
        fprintf(stderr, "%s", text);
    unlink(path);
    return failed;
}

static void test_a_late_rank_is_named_and_waited_for(void **state)
{
    for (enum making making = 0; making < MAKINGS; making++)
        assert_int_equal(world_at_once(WORLDS, warn_in_world, &making), 0);
}

/* Rank 0 is in a barrier of another communicator, and comes to the making afterwards. */
static int cross(weft_context *context, int rank, void *argument)
{
    const struct scene *scene = argument;
    weft_comm *world = weft_world(context), *other = NULL, *made = NULL;
    CHECK(weft_comm_duplicate(world, &other) == WEFT_OK);
    uint64_t began = clock_now();
    weft_status status = rank == 0 ? weft_barrier(other) : make(scene->making, world, &made);
    if (status == WEFT_OK) /* a subset's rank may be through */
        status = rank == 0 ? make(scene->making, world, &made) : weft_barrier(other);
    CHECK(status == WEFT_ERROR_MISMATCH);
    CHECK(says(context, "blocking calls cross") && says(context, names[scene->making]) && says(context, "of world"));
    CHECK(says(context, "barrier()") && says(context, "of communicator 2"));
    CHECK((double)(clock_now() - began) * 1e-9 < PATIENCE);
    return 0;
}

static void test_a_cycle_is_named(void **state)
{
    for (int i = 0; i < WORLDS; i++) {
        struct scene scene = {i % MAKINGS, NULL};
        assert_int_equal(world_run(&worlds[i], cross, &scene), 0);
    }
}

/* On one communicator the calls disagree: seen at once, without a limit. */
static int disagree(weft_context *context, int rank, void *argument)
{
    const struct scene *scene = argument;
    weft_comm *world = weft_world(context), *made = NULL;
    uint8_t all[24 * RANKS_MOST] = {0};
    uint64_t began = clock_now();
    weft_status status = rank != 0                    ? weft_comm_split(world, 0, 0, &made)
                         : scene->making == DUPLICATE ? weft_comm_duplicate(world, &made)
                         : scene->making == SUBSET    ? weft_barrier(world)
                                                      : weft_allgather(all, all, 24, WEFT_U8, world);
    CHECK(status == WEFT_ERROR_MISMATCH);
    CHECK(says(context, "ranks disagree") && says(context, "split()") && says(context, "operation 1 of world"));
    CHECK(says(context, scene->making == DUPLICATE ? "duplicate()"
                        : scene->making == SUBSET  ? "barrier()"
                                                   : "allgather(count 24, u8)"));
    CHECK((double)(clock_now() - began) * 1e-9 < PATIENCE);
    return 0;
}

static void test_calls_that_differ_are_named(void **state)
{
    run_everywhere(disagree, 600);
}

/* Both make a subset of the same ranks, each in its own order. */
static int list_otherwise(weft_context *context, int rank, void *argument)
{
    const int lists[2][2] = {{0, 1}, {1, 0}};
    weft_comm *made = NULL;
    uint64_t began = clock_now();
    CHECK(weft_comm_subset(weft_world(context), lists[rank], 2, &made) == WEFT_ERROR_MISMATCH);
    CHECK(says(context, "ranks disagree") && says(context, "subset 1 of world") && says(context, "another list"));
    CHECK((double)(clock_now() - began) * 1e-9 < PATIENCE);
    return 0;
}

static void test_lists_that_differ_are_recognized(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, list_otherwise, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 2, .ranks_per_node = 1}, list_otherwise, NULL), 0);
}

/* One rank has no memory for it: all get that status, and the job goes on. */
static int run_out(weft_context *context, int rank, void *argument)
{
    const struct scene *scene = argument;
    weft_comm *world = weft_world(context), *made = NULL;
    void *pieces[64];
    int count = 0;
    CHECK(weft_barrier(world) == WEFT_OK);
    for (size_t bytes = (size_t)32 << 20; rank == 1 && bytes >= 4096; bytes /= 2)
        while (count < 64 && (pieces[count] = weft_alloc(context, bytes)))
            count++;
    CHECK(rank != 1 || count > 0);
    CHECK(make(scene->making, world, &made) == WEFT_ERROR_MEMORY);
    CHECK(!made && (rank == 1 || says(context, "rank 1 on host")));
    while (count > 0)
        weft_free(context, pieces[--count]);
    CHECK(make(scene->making, world, &made) == WEFT_OK);
    CHECK(weft_barrier(made) == WEFT_OK);
    return 0;
}

static void test_one_rank_without_memory_fails_all(void **state)
{
    for (enum making making = 0; making < MAKINGS; making++)
        for (int per_node = 0; per_node < 2; per_node++) {
            struct scene scene = {making, NULL};
            assert_int_equal(world_run(&(struct world){.ranks = 3,
                                                       .ranks_per_node = per_node,
                                                       .processes = true,
                                                       .heap_bytes = 48u << 20,
                                                       .time_limit = 20},
                                       run_out, &scene),
                             0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_fail_when_one_is_too_late),
        cmocka_unit_test(test_a_late_rank_is_named_and_waited_for),
        cmocka_unit_test(test_a_cycle_is_named),
        cmocka_unit_test(test_calls_that_differ_are_named),
        cmocka_unit_test(test_lists_that_differ_are_recognized),
        cmocka_unit_test(test_one_rank_without_memory_fails_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
