/* SPDX-License-Identifier: Apache-2.0 */
/* What is made and freed again and again leaves nothing: communicators, and contexts that share a weft_process. */
#include "../world.h"

#include "core/collective/communicator/context.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define WARM_UP_ROUNDS 40
#define ROUNDS         400
#define COUNT          65536 /* floats: a large message on every transport */
#define MESSAGES       40    /* enough for the receiver to report on them */
#define BYTES_MOST     40000 /* what pools may grow by, and less than 100 a communicator */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
size_t __sanitizer_get_current_allocated_bytes(void);
static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes();
}
#else
static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2(); /* of the only arena: see main() */
    return info.uordblks + info.hblkhd;
}
#endif

struct size {
    size_t allocated;
    uint64_t heap;
};

static int use(weft_context *context, weft_comm *comm, int rank, float *data)
{
    CHECK(weft_allreduce(data, data, 4, WEFT_F32, WEFT_MAX, comm) == WEFT_OK);
    CHECK(weft_allreduce(data, data, COUNT, WEFT_F32, WEFT_MAX, comm) == WEFT_OK);
    for (int i = 0; i < MESSAGES; i++)
        CHECK((rank ? weft_receive(data, 4, WEFT_F32, 0, comm) : weft_send(data, 4, WEFT_F32, 1, comm)) == WEFT_OK);
    return 0;
}

/* What is allocated now, as rank 0 sees it while the others wait. */
static int look(weft_context *context, int rank, struct size *size)
{
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    /* All have freed: now the memory that others might still have looked at goes. */
    for (int i = 0; atomic_load(&context->released) && i < 10000; i++)
        usleep(1000);
    CHECK(!atomic_load(&context->released));
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    if (rank == 0)
        *size = (struct size){allocated(), heap_in_use(context->heap)};
    CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    return 0;
}

static int make_and_free(weft_context *context, int rank, void *argument)
{
    struct size *sizes = argument;
    float *data = weft_alloc(context, COUNT * sizeof *data);
    CHECK(data);
    for (int i = 0; i <= WARM_UP_ROUNDS + ROUNDS; i++) {
        weft_comm *comm = NULL;
        if (i == WARM_UP_ROUNDS || i == WARM_UP_ROUNDS + ROUNDS)
            CHECK(look(context, rank, &sizes[i > WARM_UP_ROUNDS]) == 0);
        CHECK(weft_comm_duplicate(weft_world(context), &comm) == WEFT_OK);
        CHECK(use(context, comm, rank, data) == 0);
        CHECK(weft_comm_free(comm) == WEFT_OK);
    }
    return 0;
}

static void check_communicators(const struct world *world)
{
    struct size sizes[2] = {{0}};
    assert_int_equal(world_run(world, make_and_free, sizes), 0);
    assert_int_equal(sizes[1].heap, sizes[0].heap);
    if (sizes[1].allocated > sizes[0].allocated + BYTES_MOST)
        fail_msg("%d communicators made and freed left %zu bytes", ROUNDS, sizes[1].allocated - sizes[0].allocated);
}

static void test_communicators_that_are_freed_leave_nothing(void **state)
{
    check_communicators(&(struct world){.ranks = 2});
}

static void test_nor_do_they_over_the_fabric(void **state)
{
    check_communicators(&(struct world){.ranks = 2, .ranks_per_node = 1});
}

static void test_finalize_frees_buffers_in_a_shared_heap(void **state)
{
    weft_process *process = NULL;
    assert_int_equal(weft_process_open(64u << 20, &process), WEFT_OK);
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 1;
    config.process = process;
    uint64_t before = heap_in_use(process->heap);
    for (int i = 0; i < 20; i++) {
        weft_context *context = NULL;
        assert_int_equal(weft_init(&config, &context), WEFT_OK);
        char *kept = weft_alloc(context, 8u << 20), *given_back = weft_alloc(context, 4096);
        assert_non_null(kept);
        assert_non_null(weft_alloc(context, 1));
        weft_free(context, given_back);
        assert_int_equal(weft_finalize(context), WEFT_OK);
        assert_int_equal(heap_in_use(process->heap), before);
    }
    weft_process_close(process);
}

int main(void)
{
    mallopt(M_ARENA_MAX, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_communicators_that_are_freed_leave_nothing),
        cmocka_unit_test(test_nor_do_they_over_the_fabric),
        cmocka_unit_test(test_finalize_frees_buffers_in_a_shared_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
