/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for a late rank of its own node sleeps, also when another node has sent it something in the meantime. */
#include "../world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#define COUNT   65536 /* so large that the other node announces where it waits for its share */
#define LATE_NS 400000000

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int wait_for_rank_1(weft_context *context, int rank, void *argument)
{
    weft_comm *comm = weft_world(context);
    float *input = weft_alloc(context, COUNT * sizeof *input), *output = weft_alloc(context, COUNT * sizeof *output);
    CHECK(input && output);
    for (int i = 0; i < COUNT; i++)
        input[i] = 1;
    CHECK(weft_comm_set_algorithm(comm, "allreduce", "two-level-doubling") == WEFT_OK);
    CHECK(weft_allreduce(input, output, COUNT, WEFT_F32, WEFT_SUM, comm) == WEFT_OK);
    if (rank == 1)
        nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    double begin = thread_seconds();
    CHECK(weft_allreduce(input, output, COUNT, WEFT_F32, WEFT_SUM, comm) == WEFT_OK);
    double used = thread_seconds() - begin;
    if (used > LATE_NS * 1e-9 / 8)
        fprintf(stderr, "rank %d has used %.3f s of processor time in a wait of %.1f s\n", rank, used, LATE_NS * 1e-9);
    CHECK(used < LATE_NS * 1e-9 / 8);
    CHECK(output[0] == 4 && output[COUNT - 1] == 4);
    weft_free(context, input);
    weft_free(context, output);
    return 0;
}

static void who_waits_sleeps(void **state)
{
    assert_int_equal(
        world_run(&(struct world){.ranks = 4, .ranks_per_node = 2, .time_limit = 20}, wait_for_rank_1, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
