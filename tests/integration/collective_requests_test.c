/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, messages and groups: what is started completes, in whatever order, on however many communicators. */
#include "../world.h"
#include "core/collective/communicator/context.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

/* Each rank starts all-reduces on several communicators, beginning with another one. */
static int different_orders(weft_context *context, int rank, void *argument)
{
    enum { COMMS = 4, COUNT = 50000 };
    weft_comm *comms[COMMS];
    weft_request *requests[COMMS];
    float *buffers[COMMS];
    int ranks = weft_comm_size(weft_world(context));
    for (int i = 0; i < COMMS; i++) {
        CHECK(weft_comm_duplicate(weft_world(context), &comms[i]) == WEFT_OK);
        buffers[i] = i % 2 ? weft_alloc(context, COUNT * 4) : malloc(COUNT * 4);
    }
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < COMMS; i++) {
            int c = (i + rank + round) % COMMS;
            for (int k = 0; k < COUNT; k++)
                buffers[c][k] = (float)(c + rank + k % 5);
            CHECK(weft_allreduce_start(buffers[c], buffers[c], COUNT, WEFT_F32, WEFT_SUM, comms[c], &requests[c]) ==
                  WEFT_OK);
        }
        if (round % 2) {
            CHECK(weft_wait_all(requests, COMMS) == WEFT_OK);
        } else {
            for (int left = COMMS, index; left; left--) {
                CHECK(weft_wait_any(requests, COMMS, &index) == WEFT_OK);
                CHECK(index >= 0 && !requests[index]);
            }
        }
        for (int c = 0; c < COMMS; c++)
            for (int k = 0; k < COUNT; k++)
                CHECK(buffers[c][k] == (float)(ranks * (c + k % 5) + ranks * (ranks - 1) / 2));
    }
    int none;
    CHECK(weft_wait_any(requests, COMMS, &none) == WEFT_OK && none == -1);
    for (int i = 0; i < COMMS; i++) {
        i % 2 ? weft_free(context, buffers[i]) : free(buffers[i]);
        CHECK(weft_comm_free(comms[i]) == WEFT_OK);
    }
    return 0;
}

/* Several operations in flight on one communicator end in their order, and test() sees it. */
static int many_in_flight(weft_context *context, int rank, void *argument)
{
    enum { MANY = 40 };
    weft_comm *world = weft_world(context);
    weft_request *requests[MANY];
    int64_t values[MANY][3];
    int ranks = weft_comm_size(world);
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < 3; k++)
            values[i][k] = i * 10 + k + rank;
        CHECK(weft_allreduce_start(values[i], values[i], i % 4, WEFT_I64, WEFT_SUM, world, &requests[i]) == WEFT_OK);
    }
    for (int left = MANY; left;)
        for (int i = 0; i < MANY; i++) {
            bool done = false, was = requests[i] != NULL;
            CHECK(weft_test(&requests[i], &done) == WEFT_OK);
            left -= was && done;
        }
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < i % 4 && k < 3; k++)
            CHECK(values[i][k] == (int64_t)ranks * (i * 10 + k) + ranks * (ranks - 1) / 2);
    return 0;
}

/* A request moves while its owner does something else. */
static int moves_by_itself(weft_context *context, int rank, void *argument)
{
    enum { COUNT = 1 << 20 };
    weft_comm *world = weft_world(context);
    float *buffer = weft_alloc(context, COUNT * 4);
    weft_request *request;
    for (int k = 0; k < COUNT; k++)
        buffer[k] = 1;
    CHECK(weft_allreduce_start(buffer, buffer, COUNT, WEFT_F32, WEFT_SUM, world, &request) == WEFT_OK);
    bool done = false;
    for (int tries = 0; tries < 200 && !done; tries++) {
        usleep(50000);
        /* The last element is read only after the request has ended: its flag is looked at through test(). */
        CHECK(weft_test(&request, &done) == WEFT_OK);
        if (tries == 0 && !done)
            fprintf(stderr, "rank %d: not complete after 50 ms\n", rank);
    }
    CHECK(done && buffer[COUNT - 1] == (float)weft_comm_size(world));
    weft_free(context, buffer);
    return 0;
}

/* Everybody sends to everybody, in an order that would block without a group; several messages between two ranks keep
 * theirs. */
static int messages(weft_context *context, int rank, void *argument)
{
    enum { COUNT = 30000 };
    weft_comm *world = weft_world(context);
    int ranks = weft_comm_size(world);
    uint32_t *out = malloc(COUNT * 4), *in = calloc((size_t)ranks * COUNT, 4), first[8], second[8], one = 1, two = 2;
    for (uint32_t k = 0; k < COUNT; k++)
        out[k] = k * 7 + (uint32_t)rank;
    CHECK(weft_group_start(context) == WEFT_OK);
    for (int peer = 0; peer < ranks; peer++) {
        if (peer == rank)
            continue;
        CHECK(weft_send(out, COUNT, WEFT_U32, peer, world) == WEFT_OK);
        CHECK(weft_send(&one, 1, WEFT_U32, peer, world) == WEFT_OK);
        CHECK(weft_send(&two, 1, WEFT_U32, peer, world) == WEFT_OK);
        CHECK(weft_receive(in + (size_t)peer * COUNT, COUNT, WEFT_U32, peer, world) == WEFT_OK);
        CHECK(weft_receive(&first[peer], 1, WEFT_U32, peer, world) == WEFT_OK);
        CHECK(weft_receive(&second[peer], 1, WEFT_U32, peer, world) == WEFT_OK);
    }
    CHECK(weft_group_end(context) == WEFT_OK);
    for (int peer = 0; peer < ranks; peer++) {
        if (peer == rank)
            continue;
        for (uint32_t k = 0; k < COUNT; k++)
            CHECK(in[(size_t)peer * COUNT + k] == k * 7 + (uint32_t)peer);
        CHECK(first[peer] == 1 && second[peer] == 2);
    }
    free(out);
    free(in);
    CHECK(weft_barrier(world) == WEFT_OK);
    return 0;
}

/* Messages between a few ranks while others are in collectives; a message started early and received late. */
static int messages_beside_collectives(weft_context *context, int rank, void *argument)
{
    enum { COUNT = 100000 };
    weft_comm *world = weft_world(context);
    int ranks = weft_comm_size(world), next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int32_t *out = malloc(COUNT * 4), *in = malloc(COUNT * 4), sum = 1;
    for (int k = 0; k < COUNT; k++)
        out[k] = rank * 1000 + k % 1000;
    weft_request *sending, *receiving;
    CHECK(weft_send_start(out, COUNT, WEFT_I32, next, world, &sending) == WEFT_OK);
    for (int i = 0; i < 20; i++) {
        sum = 1;
        CHECK(weft_allreduce(&sum, &sum, 1, WEFT_I32, WEFT_SUM, world) == WEFT_OK && sum == ranks);
    }
    CHECK(weft_receive_start(in, COUNT, WEFT_I32, before, world, &receiving) == WEFT_OK);
    CHECK(weft_barrier(world) == WEFT_OK);
    CHECK(weft_wait(&receiving) == WEFT_OK && weft_wait(&sending) == WEFT_OK);
    for (int k = 0; k < COUNT; k++)
        CHECK(in[k] == before * 1000 + k % 1000);
    free(out);
    free(in);
    return 0;
}

/* Communicators: split in two ways, subsets, used in turn; ranks and nodes as told. */
static int communicators(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context), *half, *backwards, *nobody = NULL, *ends = NULL;
    int ranks = weft_comm_size(world);
    CHECK(weft_comm_rank(world) == rank && weft_comm_node_of(world, rank) == weft_comm_node(world));
    CHECK(weft_comm_split(world, rank % 2, rank, &half) == WEFT_OK);
    CHECK(weft_comm_rank(half) == rank / 2 && weft_comm_size(half) == (ranks + 1 - rank % 2) / 2);
    CHECK(weft_comm_split(world, 0, -rank, &backwards) == WEFT_OK);
    CHECK(weft_comm_rank(backwards) == ranks - 1 - rank);
    CHECK(weft_comm_split(world, rank == 0 ? -1 : 5, 0, &nobody) == WEFT_OK);
    CHECK(rank == 0 ? !nobody : weft_comm_size(nobody) == ranks - 1);
    int both[2] = {ranks - 1, 0};
    if (rank == 0 || rank == ranks - 1) {
        for (int i = 0; i < 3; i++) {
            CHECK(weft_comm_subset(world, both, 2, &ends) == WEFT_OK);
            CHECK(weft_comm_rank(ends) == (rank == 0) && weft_comm_size(ends) == 2);
            int32_t one = 1;
            CHECK(weft_allreduce(&one, &one, 1, WEFT_I32, WEFT_SUM, ends) == WEFT_OK && one == 2);
            CHECK(weft_comm_free(ends) == WEFT_OK);
        }
    }
    int32_t mine = rank, all[8] = {0};
    CHECK(weft_allgather(&mine, all, 1, WEFT_I32, backwards) == WEFT_OK);
    for (int r = 0; r < ranks; r++)
        CHECK(all[r] == ranks - 1 - r);
    double sum = rank;
    CHECK(weft_allreduce(&sum, &sum, 1, WEFT_F64, WEFT_SUM, half) == WEFT_OK);
    double expected = 0;
    for (int r = rank % 2; r < ranks; r += 2)
        expected += r;
    CHECK(sum == expected);
    CHECK(weft_comm_free(half) == WEFT_OK && weft_comm_free(backwards) == WEFT_OK && weft_comm_free(nobody) == WEFT_OK);
    return 0;
}

/* Two threads of a rank, each with a communicator of its own. */
struct pair_member {
    weft_context *context;
    weft_comm *comm;
    int result;
};

static void *thread_main(void *argument)
{
    struct pair_member *self = argument;
    weft_context *context = self->context;
    int ranks = weft_comm_size(self->comm);
    double *buffer = weft_alloc(context, 9000 * sizeof *buffer);
    for (int i = 0; i < 60 && !self->result; i++) {
        size_t count = i % 3 ? 1 : 9000;
        for (size_t k = 0; k < count; k++)
            buffer[k] = (double)i;
        weft_request *request = NULL;
        weft_status status =
            i % 2 ? weft_allreduce(buffer, buffer, count, WEFT_F64, WEFT_SUM, self->comm)
                  : weft_allreduce_start(buffer, buffer, count, WEFT_F64, WEFT_SUM, self->comm, &request);
        if (status == WEFT_OK)
            status = weft_wait(&request);
        for (size_t k = 0; k < count && !self->result; k++)
            self->result = status != WEFT_OK || buffer[k] != (double)(i * ranks);
    }
    weft_free(context, buffer);
    return NULL;
}

static int threads_of_a_rank(weft_context *context, int rank, void *argument)
{
    struct pair_member members[2] = {{.context = context}, {.context = context}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(weft_comm_duplicate(weft_world(context), &members[i].comm) == WEFT_OK);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_main, &members[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(!members[0].result && !members[1].result);
    for (int i = 0; i < 2; i++)
        CHECK(weft_comm_free(members[i].comm) == WEFT_OK);
    return 0;
}

static const struct {
    const char *name;
    world_body body;
} bodies[] = {
    {"different orders", different_orders},   {"many in flight", many_in_flight},
    {"moves by itself", moves_by_itself},     {"messages", messages},
    {"communicators", communicators},         {"messages beside collectives", messages_beside_collectives},
    {"threads of a rank", threads_of_a_rank},
};

static void run_all(const struct world *world)
{
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        fprintf(stderr, "%s\n", bodies[i].name);
        assert_int_equal(world_run(world, bodies[i].body, NULL), 0);
    }
}

static void test_threads_on_one_node(void **state)
{
    run_all(&(struct world){.ranks = 3});
}

static void test_processes(void **state)
{
    run_all(&(struct world){.ranks = 2, .processes = true});
}

static void test_two_nodes(void **state)
{
    run_all(&(struct world){.ranks = 4, .ranks_per_node = 2});
}

/* The same sums wherever the ranks lie; what each placement moved through which transport. */
enum { PLACED_RANKS = 4, PLACED_COUNT = 5000 };

struct placed {
    float sums[PLACED_COUNT];
    struct transport_counters moved[CONTEXT_TRANSPORTS];
};

static int sum_and_count(weft_context *context, int rank, void *argument)
{
    struct placed *placed = argument; /* rank 0's alone */
    float mine[PLACED_COUNT], sums[PLACED_COUNT];
    struct transport_counters before[CONTEXT_TRANSPORTS], after[CONTEXT_TRANSPORTS];
    for (int k = 0; k < PLACED_COUNT; k++)
        mine[k] = 1.0f / (float)(3 + k * PLACED_RANKS + rank);
    context_counters(context, before);
    CHECK(weft_allreduce(mine, sums, PLACED_COUNT, WEFT_F32, WEFT_SUM, weft_world(context)) == WEFT_OK);
    context_counters(context, after);
    if (rank == 0) {
        memcpy(placed->sums, sums, sizeof sums);
        for (int i = 0; i < CONTEXT_TRANSPORTS; i++) {
            placed->moved[i].bytes_sent = after[i].bytes_sent - before[i].bytes_sent;
            placed->moved[i].messages_sent = after[i].messages_sent - before[i].messages_sent;
        }
    }
    return 0;
}

static void test_the_same_bits_wherever_ranks_lie(void **state)
{
    static struct placed one_node, two_nodes, four_nodes;
    assert_int_equal(world_run(&(struct world){.ranks = PLACED_RANKS}, sum_and_count, &one_node), 0);
    assert_int_equal(world_run(&(struct world){.ranks = PLACED_RANKS, .ranks_per_node = 2}, sum_and_count, &two_nodes),
                     0);
    assert_int_equal(world_run(&(struct world){.ranks = PLACED_RANKS, .ranks_per_node = 1}, sum_and_count, &four_nodes),
                     0);
    assert_memory_equal(one_node.sums, two_nodes.sums, sizeof one_node.sums);
    assert_memory_equal(one_node.sums, four_nodes.sums, sizeof one_node.sums);
    assert_int_equal(one_node.moved[CONTEXT_FABRIC].messages_sent, 0);
    assert_true(two_nodes.moved[CONTEXT_FABRIC].bytes_sent > 0);
    assert_true(four_nodes.moved[CONTEXT_FABRIC].bytes_sent > 0);
    assert_int_equal(four_nodes.moved[CONTEXT_SHM].messages_sent, 0);
    /* A hierarchy sends no more over the slow links than ranks that are all apart. */
    assert_true(two_nodes.moved[CONTEXT_FABRIC].bytes_sent <= four_nodes.moved[CONTEXT_FABRIC].bytes_sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_bits_wherever_ranks_lie),
        cmocka_unit_test(test_threads_on_one_node),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
