/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that hangs is named and killed, and the others go on without it. A rank that is slow but makes progress, waits
 * for another, or was stopped as a whole is left alone.
 */
#include "../world.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LIMIT 0.5

static void hang_busily(void)
{
    for (volatile uint64_t turns = 0;; turns++)
        ;
}

static void hang_asleep(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock); /* for ever */
}

/* Rank 1 hangs; the others wait for it and for each other. */
static int wait_for_hanging_rank(weft_context *context, int rank, void *argument)
{
    void (*const hang)(void) = *(void (**)(void))argument;
    const uint64_t began = clock_now();
    weft_progress(context, "part", rank);
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    weft_progress(context, "the part that may hang\n", 17);
    if (rank == 1)
        hang();
    CHECK(weft_barrier(weft_world(context)) == WEFT_ERROR_PEER);
    const double seconds = (double)(clock_now() - began) * 1e-9;
    const char *message = weft_message(context);
    CHECK(seconds > LIMIT && seconds < LIMIT + 5);
    CHECK(strstr(message, "rank 1 on host ") && strstr(message, " hangs, and is killed: for 0.5 s"));
    CHECK(strstr(message, hang == hang_busily ? "its main thread runs" : "its main thread sleeps"));
    CHECK(strstr(message, "last in the part that may hang? 17"));
    CHECK(weft_shrink(context) == WEFT_OK);
    CHECK(weft_comm_size(weft_world(context)) == 3);
    return weft_barrier(weft_world(context)) != WEFT_OK;
}

static void check_hang(void (*hang)(void), int ranks_per_node)
{
    const struct world world = {.ranks = 4,
                                .ranks_per_node = ranks_per_node,
                                .processes = true,
                                .time_limit = 60,
                                .hang_limit = LIMIT};
    assert_int_equal(world_run(&world, wait_for_hanging_rank, &hang), 1); /* that rank alone */
}

static void a_rank_in_an_endless_loop_is_killed(void **state)
{
    check_hang(hang_busily, 0);
}

static void a_rank_that_sleeps_is_killed(void **state)
{
    check_hang(hang_asleep, 2);
}

/* Rank 0 takes several limits, with progress; rank 1 waits for it that long, in each kind of wait; rank 2 has said that
 * it needs no watch, and rank 3 has never begun one. */
static int work_slowly(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context), *half = NULL;
    int number = rank;
    weft_request *request;
    if (rank != 3)
        weft_progress(context, "slow work", 0);
    if (rank == 2)
        weft_progress(context, NULL, 0);
    for (int i = 0; rank == 0 && i < 10; i++) {
        weft_progress(context, "slow work", i);
        usleep((unsigned)(LIMIT * 0.3e6));
    }
    if (rank >= 2)
        usleep((unsigned)(LIMIT * 3e6));
    CHECK(weft_allreduce(&number, &number, 1, WEFT_I32, WEFT_SUM, world) == WEFT_OK && number == 6);
    if (rank == 0)
        weft_progress(context, NULL, 0);
    if (rank == 0)
        usleep((unsigned)(LIMIT * 3e6));
    CHECK(weft_comm_split(world, rank % 2, 0, &half) == WEFT_OK);
    if (rank == 0)
        usleep((unsigned)(LIMIT * 3e6));
    CHECK(weft_allreduce_start(&number, &number, 1, WEFT_I32, WEFT_SUM, world, &request) == WEFT_OK);
    CHECK(weft_wait(&request) == WEFT_OK && number == 24);
    return 0;
}

static void slow_and_waiting_ranks_are_left_alone(void **state)
{
    const struct world world = {.ranks = 4, .processes = true, .time_limit = 60, .hang_limit = LIMIT};
    assert_int_equal(world_run(&world, work_slowly, NULL), 0);
}

/* Stop this process for some limits: a child continues it. */
static int stop_for_long(weft_context *context, int rank, void *argument)
{
    weft_progress(context, "work", 1);
    if (rank == 1) {
        const pid_t self = getpid(), child = fork();
        if (child == 0) {
            usleep((unsigned)(LIMIT * 4e6));
            kill(self, SIGCONT);
            _exit(0);
        }
        kill(self, SIGSTOP);
        waitpid(child, NULL, 0);
    }
    return weft_barrier(weft_world(context)) != WEFT_OK;
}

static void the_time_of_a_stopped_process_does_not_count(void **state)
{
    const struct world world = {
        .ranks = 2, .processes = true, .time_limit = 60, .hang_limit = LIMIT, .liveness_limit = 30};
    assert_int_equal(world_run(&world, stop_for_long, NULL), 0);
}

/* Before any operation. */
static int hang_alone(weft_context *context, int rank, void *argument)
{
    weft_progress(context, "lonely work", -1);
    hang_busily();
    return 0;
}

static void a_rank_alone_in_its_job_is_killed_too(void **state)
{
    const struct world world = {.ranks = 1, .processes = true, .hang_limit = LIMIT};
    assert_int_equal(world_run(&world, hang_alone, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_in_an_endless_loop_is_killed),
        cmocka_unit_test(a_rank_that_sleeps_is_killed),
        cmocka_unit_test(slow_and_waiting_ranks_are_left_alone),
        cmocka_unit_test(the_time_of_a_stopped_process_does_not_count),
        cmocka_unit_test(a_rank_alone_in_its_job_is_killed_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
