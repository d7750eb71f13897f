/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that calls weft_finalize() without its part in an operation is named at once by those who wait for it. One
 * that has taken its part in everything waits for the others, for as long as they like.
 */
#include "../world.h"
#include "base/clock.h"
#include "core/collective/communicator/context.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT    100000
#define PATIENCE 20.0 /* seconds for what must happen soon */

static const struct world worlds[] = {
    {.ranks = 2},
    {.ranks = 5},
    {.ranks = 3, .processes = true},
    {.ranks = 3, .ranks_per_node = 1},
    {.ranks = 4, .ranks_per_node = 2, .processes = true},
};

#define WORLDS ((int)(sizeof worlds / sizeof *worlds))

/* What is tried in every world, and how many ranks fail. */
struct trial {
    world_body body;
    void *arguments[WORLDS];
    int failed;
};

static int try_in_world(int number, const void *argument)
{
    const struct trial *trial = argument;
    return world_run(&worlds[number], trial->body, trial->arguments[number]) != trial->failed;
}

/* Rank 0 ends with an error of weft_finalize(), the others see what they expect. */
static void run_everywhere(world_body body, void *argument)
{
    struct trial trial = {.body = body, .failed = 1};
    for (int i = 0; i < WORLDS; i++)
        trial.arguments[i] = argument;
    assert_int_equal(world_at_once(WORLDS, try_in_world, &trial), 0);
}

static bool says(const weft_context *context, const char *words)
{
    return strstr(weft_message(context), words) != NULL;
}

static int check_end(weft_context *context, int rank, weft_status status, uint64_t began, const char *call)
{
    if (rank == 1)
        fprintf(stderr, "  %.2f s: %s\n", (double)(clock_now() - began) * 1e-9, weft_message(context));
    CHECK(status == WEFT_ERROR_MISMATCH);
    CHECK(says(context, "rank 0 on host") && says(context, "finalize()") && says(context, call));
    CHECK((double)(clock_now() - began) * 1e-9 < PATIENCE);
    return 0;
}

static int skip_of_world(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    uint64_t began = clock_now();
    weft_status status = weft_barrier(world);
    if (status == WEFT_OK && rank != 0)
        status = weft_barrier(world);
    return rank == 0 ? 0 : check_end(context, rank, status, began, "barrier()");
}

static void test_a_skipped_operation_of_the_world(void **state)
{
    run_everywhere(skip_of_world, NULL);
}

/* Rank 0 waits in weft_finalize() for the last rank, which computes, not for those who wait for rank 0. */
static int skip_elsewhere(weft_context *context, int rank, void *argument)
{
    weft_comm *comm, *world = weft_world(context);
    int last = weft_comm_size(world) - 1;
    float *data = calloc(COUNT, sizeof *data);
    CHECK(weft_comm_split(world, last == 1 || rank < last ? 0 : 1, 0, &comm) == WEFT_OK);
    if (argument && weft_comm_size(comm) > 1)
        CHECK(weft_comm_set_algorithm(comm, "allreduce", argument) == WEFT_OK);
    CHECK(weft_allreduce(data, data, COUNT, WEFT_F32, WEFT_SUM, comm) == WEFT_OK);
    uint64_t began = clock_now();
    weft_status status = WEFT_OK;
    while (rank == last && last > 1 && !control_failed(context->control) && clock_now() - began < PATIENCE * 1e9)
        usleep(1000);
    if (rank == last && last > 1)
        status = weft_barrier(world);
    else if (rank != 0)
        status = weft_allreduce(data, data, COUNT, WEFT_F32, WEFT_SUM, comm);
    free(data);
    return rank == 0 ? 0
                     : check_end(context, rank, status, began, "allreduce(count 100000, f32, sum) (operation 2 of ");
}

static void test_a_skipped_operation_of_another_communicator(void **state)
{
    run_everywhere(skip_elsewhere, NULL);
}

static void test_a_skipped_operation_whatever_the_algorithm(void **state)
{
    const char *algorithms[] = {"ring", "recursive-doubling", "double-tree"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(world_run(&(struct world){.ranks = 5, .ranks_per_node = 1}, skip_elsewhere,
                                   (void *)(uintptr_t)algorithms[i]),
                         1);
}

/* Rank 0 hands on what it gets from 3: one half to 1, the other to 2, which swap them, and so wait for one another. */
static const char swap[] = "weft schedule 1\ncollective broadcast\nalgorithm swap\nranks 4\nparts 2\nroot 3\n"
                           "rank 0\nlane 0\nreceive from 3 into output[0..1]\nsend output[0] to 1\n"
                           "send output[1] to 2\n"
                           "rank 1\nlane 0\nreceive from 0 into output[0]\nsend output[0] to 2\n"
                           "lane 1\nreceive from 2 into output[1]\n"
                           "rank 2\nlane 0\nreceive from 0 into output[1]\nsend output[1] to 1\n"
                           "lane 1\nreceive from 1 into output[0]\n"
                           "rank 3\nlane 0\nsend output[0..1] to 0\n";

static int skip_to_hand_on(weft_context *context, int rank, void *argument)
{
    weft_comm *comm;
    float values[2] = {1, 2};
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-finalize-%d-%d", getpid(), rank);
    FILE *file = fopen(path, "w");
    fputs(swap, file);
    fclose(file);
    weft_status status = weft_comm_duplicate(weft_world(context), &comm);
    if (status == WEFT_OK)
        status = weft_comm_load_schedule(comm, path);
    unlink(path);
    CHECK(status == WEFT_OK);
    uint64_t began = clock_now();
    if (rank == 0)
        return 0;
    status = weft_broadcast(values, 2, WEFT_F32, 3, comm);
    while (status == WEFT_OK && !control_failed(context->control) && clock_now() - began < PATIENCE * 1e9)
        usleep(1000);
    if (status == WEFT_OK)
        status = weft_barrier(comm);
    return check_end(context, rank, status, began, "broadcast(count 2, f32, root 3)");
}

static void test_a_skipped_operation_in_which_others_wait_for_one_another(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 4}, skip_to_hand_on, NULL), 1);
}

/* Rank 0 sends so many messages, more or fewer than its log keeps, and rank 1 wants one more. */
static int skip_a_message(weft_context *context, int rank, void *argument)
{
    const int messages = *(const int *)argument;
    weft_comm *world = weft_world(context);
    weft_status status = WEFT_OK;
    float value = 0;
    uint64_t began = clock_now();
    for (int i = 0; i < messages && rank < 2 && status == WEFT_OK; i++)
        status = rank ? weft_receive(&value, 1, WEFT_F32, 0, world) : weft_send(&value, 1, WEFT_F32, 1, world);
    CHECK(status == WEFT_OK);
    if (rank == 0)
        return 0;
    while (rank > 1 && !control_failed(context->control) && clock_now() - began < PATIENCE * 1e9)
        usleep(1000);
    status = rank == 1 ? weft_receive(&value, 1, WEFT_F32, 0, world) : weft_barrier(world);
    return check_end(context, rank, status, began, "receive(count 1, f32, from rank 0)");
}

static void test_a_message_that_is_not_sent(void **state)
{
    int messages[] = {5, 100, 0, 0, 100};
    struct trial trial = {.body = skip_a_message, .failed = 1};
    for (int i = 0; i < WORLDS; i++)
        trial.arguments[i] = &messages[i];
    assert_int_equal(world_at_once(WORLDS, try_in_world, &trial), 0);
}

/* Whether rank 0 is seen to be in weft_finalize(). */
static bool finalizes(weft_context *context)
{
    struct operation_log log;
    char text[OPERATION_TEXT_BYTES];
    return control_fetch_log(context->control, 0, &log, 5, NULL) == WEFT_OK &&
           strstr(operation_log_describe(&log, text, sizeof text), "finalize()");
}

/*
 * Rank 0 gives what it has to give and finalizes; then the others take it, and go on among themselves for longer than
 * the limit that rank 0 has, and than it takes to look into a standstill.
 */
static int give_and_finalize(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context), *given, *others;
    float *data = calloc(COUNT, sizeof *data);
    weft_request *request = NULL;
    CHECK(weft_comm_duplicate(world, &given) == WEFT_OK);
    CHECK(weft_comm_split(world, rank > 0, 0, &others) == WEFT_OK);
    CHECK(weft_comm_set_time_limit(world, 0.5) == WEFT_OK && weft_comm_set_time_limit(others, 60) == WEFT_OK);
    CHECK(weft_comm_set_time_limit(given, 60) == WEFT_OK);
    if (rank == 0) {
        data[0] = 7;
        CHECK(weft_send(data, 8, WEFT_F32, 1, given) == WEFT_OK);
        CHECK(weft_broadcast(data, 1, WEFT_F32, 0, given) == WEFT_OK);
        free(data);
        return 0;
    }
    uint64_t began = clock_now();
    while (!finalizes(context))
        CHECK(clock_now() - began < PATIENCE * 1e9);
    /* One of the others is late; those that have come are stuck in an operation that rank 0 is through with. */
    if (rank == weft_comm_size(world) - 1)
        sleep(3);
    if (rank == 1) {
        CHECK(weft_receive_start(data, 8, WEFT_F32, 0, given, &request) == WEFT_OK);
        CHECK(weft_wait(&request) == WEFT_OK && data[0] == 7);
        data[0] = 0;
    }
    CHECK(weft_broadcast(data, 1, WEFT_F32, 0, given) == WEFT_OK && data[0] == 7);
    CHECK(weft_barrier(others) == WEFT_OK);
    free(data);
    return 0;
}

static void test_a_rank_that_has_done_its_part_waits(void **state)
{
    assert_int_equal(world_at_once(WORLDS, try_in_world, &(struct trial){.body = give_and_finalize}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_skipped_operation_of_the_world),
        cmocka_unit_test(test_a_skipped_operation_of_another_communicator),
        cmocka_unit_test(test_a_skipped_operation_whatever_the_algorithm),
        cmocka_unit_test(test_a_skipped_operation_in_which_others_wait_for_one_another),
        cmocka_unit_test(test_a_message_that_is_not_sent),
        cmocka_unit_test(test_a_rank_that_has_done_its_part_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
