/* SPDX-License-Identifier: Apache-2.0 */
/* Who only gives in tiny operations goes on at once: the root of broadcasts returns from several of them before another
 * rank has begun the first. Lockstep would wait for ever here. Results and the order of operations are kept. */
#include "../world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define AHEAD  7 /* less than SHARED_TURNS */
#define ROUNDS 200

static _Atomic int through; /* rounds of broadcasts that the root has returned from */

/* Each round ends in a sum over all, so that nobody is ahead when the next begins. */
static int give_ahead(weft_context *context, int rank, void *argument)
{
    weft_comm *comm = weft_world(context);
    int root = *(int *)argument;
    for (int round = 1; round <= ROUNDS; round++) {
        int32_t values[AHEAD], sum = 0;
        if (rank != root)
            while (atomic_load(&through) < round)
                ;
        for (int i = 0; i < AHEAD; i++) {
            values[i] = rank == root ? round * 100 + i : -1;
            if (weft_broadcast(&values[i], 1, WEFT_I32, root, comm) != WEFT_OK)
                return 1;
        }
        if (rank == root)
            atomic_store(&through, round);
        for (int i = 0; i < AHEAD; i++)
            if (values[i] != round * 100 + i)
                return 2;
        if (weft_allreduce(&values[AHEAD - 1], &sum, 1, WEFT_I32, WEFT_SUM, comm) != WEFT_OK)
            return 3;
        if (sum != weft_comm_size(comm) * (round * 100 + AHEAD - 1))
            return 4;
    }
    return 0;
}

static void the_root_of_broadcasts_is_ahead(void **state)
{
    for (int ranks = 2; ranks <= 4; ranks++) {
        int root = ranks - 1;
        atomic_store(&through, 0);
        assert_int_equal(world_run(&(struct world){.ranks = ranks, .time_limit = 20}, give_ahead, &root), 0);
    }
}

/* A stream of operations of all kinds with changing roots, large ones between: nobody overwrites what is still read. */
static int stream(weft_context *context, int rank, void *argument)
{
    weft_comm *comm = weft_world(context);
    int ranks = weft_comm_size(comm);
    static const size_t counts[] = {1, 3, 100, 1500, 20000}; /* line, line, short and long annex, staging */
    int32_t *input = malloc(20000 * sizeof *input), *output = malloc(20000 * sizeof *output);
    int failed = 0;
    for (int i = 0; i < 3000 && !failed; i++) {
        size_t count = counts[i % 97 == 0 ? 4 : i % 4];
        int root = i / 11 % ranks;
        for (size_t k = 0; k < count; k++)
            input[k] = output[k] = i * (rank + 1) + (int32_t)k;
        if (i % 5 < 3) {
            failed = weft_broadcast(output, count, WEFT_I32, root, comm) != WEFT_OK;
            for (size_t k = 0; k < count; k++)
                failed |= output[k] != i * (root + 1) + (int32_t)k;
        } else {
            failed = weft_reduce(input, output, count, WEFT_I32, WEFT_SUM, root, comm) != WEFT_OK;
            for (size_t k = 0; rank == root && k < count; k++)
                failed |= output[k] != i * ranks * (ranks + 1) / 2 + ranks * (int32_t)k;
        }
    }
    free(input);
    free(output);
    return failed;
}

static void a_stream_of_roots_keeps_its_data(void **state)
{
    for (int processes = 0; processes < 2; processes++)
        for (int ranks = 2; ranks <= 3; ranks++)
            assert_int_equal(world_run(&(struct world){.ranks = ranks, .processes = processes}, stream, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_of_broadcasts_is_ahead),
        cmocka_unit_test(a_stream_of_roots_keeps_its_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
