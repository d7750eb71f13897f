/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a failure the survivors shrink: they get a world of those who live, in their old order, on which sums are
 * canonical; again and again; over shared memory, over the network, and when ranks die while others shrink.
 */
#include "../canonical.h"
#include "../world.h"
#include "base/clock.h"
#include "base/random.h"
#include "core/collective/communicator/context.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#define COUNT 5000

/* A sum over the world, in memory of weft_alloc() and in ordinary memory; 0 if it is canonical. */
static int check_sum(weft_context *context)
{
    for (int ordinary = 0; ordinary < 2; ordinary++) {
        float *buffer = ordinary ? malloc(COUNT * sizeof *buffer) : weft_alloc(context, COUNT * sizeof *buffer);
        int wrong;
        weft_status status = canonical_check(weft_world(context), buffer, COUNT, &wrong);
        if (ordinary)
            free(buffer);
        else
            weft_free(context, buffer);
        if (status != WEFT_OK || wrong) {
            fprintf(stderr, "%d of %d sums are wrong; %s\n", wrong, COUNT, weft_message(context));
            return 1;
        }
    }
    return 0;
}

/* Work, `times` operations or until something fails. */
static weft_status work(weft_context *context, int times)
{
    weft_status status = WEFT_OK;
    static _Thread_local float buffer[4096];
    for (int n = 0; status == WEFT_OK && n < times; n++) {
        weft_comm *world = weft_world(context);
        int root = n % weft_comm_size(world);
        status = n % 3 == 0   ? weft_allreduce(buffer, buffer, 4096, WEFT_F32, WEFT_MAX, world)
                 : n % 3 == 1 ? weft_broadcast(buffer, 512, WEFT_F32, root, world)
                              : weft_barrier(world);
    }
    return status;
}

/* Shrink, and expect so many ranks. */
static int shrink_to(weft_context *context, int ranks, weft_status why)
{
    char reason[1024];
    snprintf(reason, sizeof reason, "%s", weft_message(context));
    if (why == WEFT_OK) {
        fprintf(stderr, "nothing failed\n");
        return 2;
    }
    uint64_t began = clock_now();
    weft_status status = weft_shrink(context);
    if (status != WEFT_OK) {
        fprintf(stderr, "after '%s': weft_shrink: %s\n", reason, weft_message(context));
        return 3;
    }
    weft_comm *world = weft_world(context);
    if (weft_comm_rank(world) == 0)
        fprintf(stderr, "  %d ranks after %.3f s; %s\n", weft_comm_size(world), (clock_now() - began) * 1e-9, reason);
    if (weft_comm_size(world) != ranks) {
        fprintf(stderr, "%d ranks are left, not %d\n", weft_comm_size(world), ranks);
        return 4;
    }
    return check_sum(context);
}

/* The ranks of a list die one after the other. */
struct deaths {
    const int *victims;
    int count, signal;
};

static int dying(weft_context *context, int rank, void *argument)
{
    const struct deaths *deaths = argument;
    int ranks = weft_comm_size(weft_world(context));
    weft_comm *stale = weft_world(context), *half;
    for (int i = 0; i < deaths->count; i++) {
        if (weft_comm_duplicate(weft_world(context), &half) != WEFT_OK)
            return 5;
        if (rank == deaths->victims[i]) {
            work(context, 1000 + 100 * i);
            if (deaths->signal == SIGSTOP) /* nobody else wakes it, should the survivors let it be */
                world_kill_later(20000000);
            if (deaths->signal)
                kill(getpid(), deaths->signal);
            _exit(0);
        }
        int wrong = shrink_to(context, --ranks, work(context, INT_MAX));
        if (wrong)
            return wrong;
        if (weft_barrier(stale) != WEFT_ERROR_STATE || weft_comm_duplicate(half, &half) != WEFT_ERROR_STATE)
            return 6;
        if (weft_comm_free(half) != WEFT_OK || work(context, 50) != WEFT_OK)
            return 7;
    }
    return 0;
}

/* How many ranks end badly: those who are killed. */
static int run_deaths(struct world world, struct deaths deaths)
{
    world.processes = true;
    return world_run(&world, dying, &deaths);
}

static void test_survivors_of_deaths_go_on(void **state)
{
    const int victims[] = {1, 0, 3};
    assert_int_equal(run_deaths((struct world){.ranks = 5}, (struct deaths){victims, 3, SIGKILL}), 3);
    assert_int_equal(run_deaths((struct world){.ranks = 3}, (struct deaths){(int[]){1}, 1, 0}), 0);
}

static void test_survivors_over_the_network_go_on(void **state)
{
    const int victims[] = {2, 0};
    assert_int_equal(run_deaths((struct world){.ranks = 4, .ranks_per_node = 2}, (struct deaths){victims, 2, SIGKILL}),
                     2);
}

static void test_a_stopped_process_is_ended(void **state)
{
    assert_int_equal(run_deaths((struct world){.ranks = 3}, (struct deaths){(int[]){1}, 1, SIGSTOP}), 1);
}

/* Nobody is dead: ranks that disagreed go on together, threads and processes. */
static int disagreeing(weft_context *context, int rank, void *argument)
{
    int ranks = weft_comm_size(weft_world(context));
    float buffer[64] = {0};
    for (int i = 0; i < 3; i++) {
        /* A rank that is slow to see its sums complete may first see the others disagree. */
        weft_status status = context_status(context);
        if (status == WEFT_OK)
            status = weft_allreduce(buffer, buffer, rank == i ? 64 : 63, WEFT_F32, WEFT_SUM, weft_world(context));
        if (status == WEFT_OK)
            status = weft_barrier(weft_world(context));
        int wrong = shrink_to(context, ranks, status);
        if (wrong && (wrong > 1 || context_status(context) == WEFT_OK))
            return wrong;
    }
    return weft_shrink(context) != WEFT_ERROR_STATE;
}

static void test_ranks_that_disagreed_go_on(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, disagreeing, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 3, .processes = true}, disagreeing, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 4, .ranks_per_node = 2}, disagreeing, NULL), 0);
}

/* One thread of several does not come: it is left out, and told so when it does. */
static int one_stays_away(weft_context *context, int rank, void *argument)
{
    float buffer[64] = {0};
    if (rank == 1) {
        weft_abort(context, "no more");
        while (weft_barrier(weft_world(context)) == WEFT_OK)
            ;
        sleep(3);
        return weft_shrink(context) != WEFT_ERROR_PEER || !strstr(weft_message(context), "continued without");
    }
    weft_status status = WEFT_OK;
    while (status == WEFT_OK)
        status = weft_allreduce(buffer, buffer, 64, WEFT_F32, WEFT_SUM, weft_world(context));
    int wrong = shrink_to(context, 2, status);
    if (wrong)
        return wrong;
    sleep(3); /* still there when it asks */
    return check_sum(context);
}

static void test_who_does_not_come_is_left_out(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3, .rendezvous_limit = 1.5}, one_stays_away, NULL), 0);
}

/* Ranks die while the others shrink. */
static int dying_meanwhile(weft_context *context, int rank, void *argument)
{
    weft_status status = WEFT_OK;
    if (rank == 2) {
        work(context, 777);
        _exit(7);
    }
    status = work(context, INT_MAX);
    if (rank < 2) { /* the leader, and who would be the next */
        world_kill_later((unsigned)random_below((uint64_t)rank, (uint64_t) * (const int *)argument, 30000));
        weft_shrink(context);
        pause();
    }
    for (int tries = 0; tries < 4; tries++) {
        if (weft_shrink(context) != WEFT_OK) {
            fprintf(stderr, "weft_shrink: %s\n", weft_message(context));
            return 3;
        }
        if (weft_comm_size(weft_world(context)) == 3)
            return check_sum(context);
        status = work(context, INT_MAX);
    }
    fprintf(stderr, "%d ranks are left; %s\n", weft_comm_size(weft_world(context)), weft_status_name(status));
    return 4;
}

static void test_deaths_while_shrinking_are_survived(void **state)
{
    for (int round = 0; round < 4; round++)
        assert_int_equal(world_run(&(struct world){.ranks = 6, .processes = true}, dying_meanwhile, &round), 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_survivors_of_deaths_go_on),
        cmocka_unit_test(test_survivors_over_the_network_go_on),
        cmocka_unit_test(test_a_stopped_process_is_ended),
        cmocka_unit_test(test_ranks_that_disagreed_go_on),
        cmocka_unit_test(test_who_does_not_come_is_left_out),
        cmocka_unit_test(test_deaths_while_shrinking_are_survived),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
