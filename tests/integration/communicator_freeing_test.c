/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freeing communicators is local: ranks may do it in any order and at any time, also across operations that block. What
 * others may still read goes when all have freed, without another call, so that memory stays bounded.
 */
#include "../world.h"
#include "base/clock.h"
#include "core/collective/communicator/context.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KINDS    3
#define COUNT    20000 /* floats: ordinary buffers of this size pass through staging */
#define PATIENCE 20.0  /* seconds for what must happen soon */

/* Requests keep their scratch: an operation that is late for the first time may leave some. It is less than what
 * hundreds of communicators would leave. */
#define KEPT_MOST (10 * sizeof(struct shared_block))

static const struct world worlds[] = {
    {.ranks = 2},
    {.ranks = 3, .processes = true},
    {.ranks = 5},
    {.ranks = 3, .ranks_per_node = 1},
    {.ranks = 4, .ranks_per_node = 2, .processes = true},
};

static void run_everywhere(world_body body, void *argument)
{
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct world world = worlds[i];
        world.time_limit = PATIENCE;
        assert_int_equal(world_run(&world, body, argument), 0);
    }
}

/* A copy of the world, half of it, and a pair of neighbors (NULL where this rank is not in it). */
static int make_some(weft_context *context, int rank, weft_comm *comms[KINDS])
{
    weft_comm *world = weft_world(context);
    const int pair[] = {0, 1};
    comms[2] = NULL;
    CHECK(weft_comm_duplicate(world, &comms[0]) == WEFT_OK);
    CHECK(weft_comm_split(world, rank % 2, -rank, &comms[1]) == WEFT_OK);
    if (rank < 2)
        CHECK(weft_comm_subset(comms[0], pair, 2, &comms[2]) == WEFT_OK);
    return 0;
}

static int use(weft_context *context, int rank, weft_comm *comm, float *data)
{
    float sum = 1;
    if (!comm)
        return 0;
    CHECK(weft_allreduce(&sum, &sum, 1, WEFT_F32, WEFT_SUM, comm) == WEFT_OK && sum == (float)weft_comm_size(comm));
    data[0] = data[COUNT - 1] = 1;
    CHECK(weft_allreduce(data, data, COUNT, WEFT_F32, WEFT_SUM, comm) == WEFT_OK);
    CHECK(data[0] == (float)weft_comm_size(comm) && data[COUNT - 1] == data[0]);
    return 0;
}

/* The memory in use when nothing is left of the communicators that all ranks have freed. */
static int measure(weft_context *context, int rank, uint64_t *bytes)
{
    uint64_t began = clock_now();
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    while (atomic_load(&context->released)) {
        CHECK(clock_now() - began < PATIENCE * 1e9);
        usleep(1000);
    }
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    *bytes = heap_in_use(context->heap);
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    return 0;
}

/* The memory of all ranks of this heap comes back without another call: the ranks only wait. */
static int wait_for_memory(weft_context *context, int rank, uint64_t before)
{
    uint64_t began = clock_now();
    while (atomic_load(&context->released) || heap_in_use(context->heap) > before + KEPT_MOST) {
        CHECK(clock_now() - began < PATIENCE * 1e9);
        usleep(1000);
    }
    return 0;
}

/* Each rank frees in an order of its own, and has a barrier of the world between. */
static int free_in_any_order(weft_context *context, int rank, void *argument)
{
    const int rounds = *(const int *)argument;
    weft_comm *world = weft_world(context), *comms[KINDS];
    float *data = calloc(COUNT, sizeof *data);
    uint64_t before = 0, most = 0;
    for (int round = -10; round < rounds; round++) {
        if (round == 0)
            CHECK(measure(context, rank, &before) == 0);
        CHECK(make_some(context, rank, comms) == 0);
        if (round >= 0 && heap_in_use(context->heap) - before > most)
            most = heap_in_use(context->heap) - before;
        for (int i = 0; i < KINDS && round % 10 == 0; i++)
            CHECK(use(context, rank, comms[i], data) == 0);
        for (int i = 0; i < KINDS; i++) {
            if (i == (rank + round + 10) % KINDS)
                CHECK(weft_barrier(world) == WEFT_OK);
            CHECK(weft_comm_free(comms[(i * (rank % 2 ? 1 : 2) + rank) % KINDS]) == WEFT_OK);
        }
    }
    CHECK(weft_barrier(world) == WEFT_OK);
    free(data);
    /* Of a round's communicators, those of the round before, and staging of the last that were used. */
    CHECK(most <
          (uint64_t)weft_comm_size(world) * 3 * KINDS * (sizeof(struct shared_block) + 8 * COUNT * sizeof(float)));
    return wait_for_memory(context, rank, before);
}

static void test_many_are_freed_in_any_order(void **state)
{
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        int rounds = worlds[i].ranks_per_node ? 150 : 700;
        struct world world = worlds[i];
        world.time_limit = PATIENCE;
        assert_int_equal(world_run(&world, free_in_any_order, &rounds), 0);
    }
}

/* Rank 0 frees at once, and goes on with what the others need before they come to free. */
static int free_before_a_barrier(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context), *comm;
    uint64_t before;
    CHECK(weft_comm_duplicate(world, &comm) == WEFT_OK && weft_comm_free(comm) == WEFT_OK);
    CHECK(measure(context, rank, &before) == 0);
    CHECK(weft_comm_duplicate(world, &comm) == WEFT_OK);
    if (rank == 0)
        CHECK(weft_comm_free(comm) == WEFT_OK);
    CHECK(weft_barrier(world) == WEFT_OK);
    if (rank != 0)
        CHECK(weft_comm_free(comm) == WEFT_OK);
    return wait_for_memory(context, rank, before);
}

static void test_one_frees_before_the_others_are_there(void **state)
{
    run_everywhere(free_before_a_barrier, NULL);
}

/* The others still read what rank 0 has given, when it has freed: it has taken its part. */
static int give_and_free(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context), *comm;
    float *data = calloc(COUNT, sizeof *data);
    for (int i = 0; i < 20; i++) {
        CHECK(weft_comm_duplicate(world, &comm) == WEFT_OK);
        data[0] = data[COUNT - 1] = rank == 0 ? (float)(i + 1) : 0;
        CHECK(weft_broadcast(data, 1, WEFT_F32, 0, comm) == WEFT_OK && data[0] == (float)(i + 1));
        CHECK(weft_broadcast(data, COUNT, WEFT_F32, 0, comm) == WEFT_OK && data[COUNT - 1] == (float)(i + 1));
        CHECK(weft_comm_free(comm) == WEFT_OK);
    }
    free(data);
    return 0;
}

static void test_what_was_given_outlives_the_communicator(void **state)
{
    run_everywhere(give_and_free, NULL);
}

/* A rank that has freed a communicator, and one that goes on with it, do not wait for the limit. */
static int free_too_early(weft_context *context, int rank, void *argument)
{
    weft_comm *comm;
    uint64_t began = clock_now();
    CHECK(weft_comm_duplicate(weft_world(context), &comm) == WEFT_OK);
    CHECK(weft_barrier(comm) == WEFT_OK);
    weft_status status = rank == 0 ? weft_comm_free(comm) : weft_barrier(comm);
    while (status == WEFT_OK && !control_failed(context->control) && clock_now() - began < PATIENCE * 1e9)
        usleep(1000);
    if (status == WEFT_OK)
        status = weft_barrier(weft_world(context));
    CHECK(status == WEFT_ERROR_MISMATCH);
    CHECK(strstr(weft_message(context), "rank 0 on host") && strstr(weft_message(context), "weft_comm_free()"));
    CHECK(strstr(weft_message(context), "barrier() (operation 2 of communicator 2)"));
    CHECK((double)(clock_now() - began) * 1e-9 < PATIENCE / 2);
    return 0;
}

static void test_use_after_another_rank_has_freed_is_named(void **state)
{
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        assert_int_equal(world_run(&worlds[i], free_too_early, NULL), 0);
}

/* A request that was not waited for still needs its communicator. */
static int free_with_a_request(weft_context *context, int rank, void *argument)
{
    weft_comm *comm;
    weft_request *request = NULL;
    CHECK(weft_comm_duplicate(weft_world(context), &comm) == WEFT_OK);
    CHECK(weft_barrier_start(comm, &request) == WEFT_OK);
    CHECK(weft_barrier(comm) == WEFT_OK); /* it has ended, too */
    CHECK(weft_comm_free(comm) == WEFT_ERROR_STATE && strstr(weft_message(context), "weft_wait()"));
    CHECK(weft_wait(&request) == WEFT_OK && weft_comm_free(comm) == WEFT_OK);
    return 0;
}

static void test_a_request_keeps_its_communicator(void **state)
{
    run_everywhere(free_with_a_request, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_are_freed_in_any_order),
        cmocka_unit_test(test_one_frees_before_the_others_are_there),
        cmocka_unit_test(test_what_was_given_outlives_the_communicator),
        cmocka_unit_test(test_use_after_another_rank_has_freed_is_named),
        cmocka_unit_test(test_a_request_keeps_its_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
