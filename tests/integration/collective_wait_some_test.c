/* SPDX-License-Identifier: Apache-2.0 */
/* Requests looked at without being freed, and several waited for together; the context of a communicator. */
#include "../world.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

enum { MANY = 6 };

/*
 * Rank 1 sends messages 4, 1 and 3 of rank 0's receives at first (each has a communicator of its own, so that they end
 * in any order), the rest only when rank 0 has seen these.
 */
static const bool early[MANY] = {[1] = true, [3] = true, [4] = true};

static int send_all(weft_context *context, int rank, weft_comm *const *comms)
{
    uint32_t value;
    for (int i = MANY - 1; i >= 0; i--) {
        value = 100 + (uint32_t)i;
        CHECK(!early[i] || weft_send(&value, 1, WEFT_U32, 0, comms[i]) == WEFT_OK);
    }
    CHECK(weft_receive(&value, 1, WEFT_U32, 0, weft_world(context)) == WEFT_OK);
    for (int i = 0; i < MANY; i++) {
        value = 100 + (uint32_t)i;
        CHECK(early[i] || weft_send(&value, 1, WEFT_U32, 0, comms[i]) == WEFT_OK);
    }
    return 0;
}

static int receive_some(weft_context *context, int rank, weft_comm *const *comms, bool waits)
{
    weft_request *requests[MANY + 1] = {NULL}; /* the last stays NULL */
    uint32_t values[MANY] = {0};
    int indices[MANY + 1], ended = -1, seen = 0;
    for (int i = 0; i < MANY; i++)
        CHECK(weft_receive_start(&values[i], 1, WEFT_U32, 1, comms[i], &requests[i]) == WEFT_OK);
    while (seen < MANY) {
        CHECK((waits ? weft_wait_some : weft_test_some)(requests, MANY + 1, indices, &ended) == WEFT_OK);
        CHECK(!waits || ended > 0);
        for (int k = 0; k < ended; k++) {
            CHECK(!requests[indices[k]] && values[indices[k]] == 100 + (uint32_t)indices[k]);
            CHECK(k == 0 || indices[k] > indices[k - 1]);
            CHECK(seen >= 3 || early[indices[k]]);
            seen++;
        }
        if (ended && seen == 3)
            CHECK(weft_send(values, 1, WEFT_U32, 1, weft_world(context)) == WEFT_OK);
    }
    CHECK(weft_wait_some(requests, MANY + 1, indices, &ended) == WEFT_OK && ended == 0);
    CHECK(weft_test_some(requests, MANY + 1, indices, &ended) == WEFT_OK && ended == 0);
    return 0;
}

static int some(weft_context *context, int rank, void *argument)
{
    weft_comm *comms[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK(weft_comm_duplicate(weft_world(context), &comms[i]) == WEFT_OK);
        CHECK(weft_comm_context(comms[i]) == context);
    }
    for (int waits = 0; waits < 2; waits++)
        if (rank ? send_all(context, rank, comms) : receive_some(context, rank, comms, waits))
            return 1;
    CHECK(!weft_comm_context(NULL));
    return 0;
}

/* Seen to end as often as one likes, and freed by the wait. */
static int looked_at(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    weft_request *request = NULL;
    bool done = false;
    int32_t sum = 1;
    CHECK(weft_request_done(NULL, &done) == WEFT_OK && done);
    if (rank != 0)
        CHECK(weft_receive(&sum, 1, WEFT_I32, 0, world) == WEFT_OK);
    CHECK(weft_allreduce_start(&sum, &sum, 1, WEFT_I32, WEFT_SUM, world, &request) == WEFT_OK);
    if (rank == 0) { /* the others come when this rank has looked */
        CHECK(weft_request_done(request, &done) == WEFT_OK && !done);
        for (int peer = 1; peer < weft_comm_size(world); peer++)
            CHECK(weft_send(&sum, 1, WEFT_I32, peer, world) == WEFT_OK);
    }
    for (done = false; !done; usleep(100))
        CHECK(weft_request_done(request, &done) == WEFT_OK);
    CHECK(weft_request_done(request, &done) == WEFT_OK && done && sum == weft_comm_size(world));
    CHECK(weft_wait(&request) == WEFT_OK && !request);
    CHECK(weft_request_done(request, NULL) == WEFT_ERROR_ARGUMENT &&
          strstr(weft_message(context), "weft_request_done()"));
    return 0;
}

/* A failure is the status of each request, every time it is looked at. */
static int failed(weft_context *context, int rank, void *argument)
{
    weft_request *requests[2];
    float values[2];
    bool done = false;
    int indices[2], ended;
    if (rank == 1) {
        weft_abort(context, "nothing comes");
        return 0;
    }
    for (int i = 0; i < 2; i++)
        if (weft_receive_start(&values[i], 1, WEFT_F32, 1, weft_world(context), &requests[i]) != WEFT_OK)
            return strstr(weft_message(context), "nothing comes") ? 0 : 1; /* rank 1 was quicker */
    while (!done) {
        weft_status status = weft_request_done(requests[0], &done);
        if (status != (done ? WEFT_ERROR_ABORTED : WEFT_OK))
            return 2;
    }
    if (weft_request_done(requests[0], &done) != WEFT_ERROR_ABORTED || !done)
        return 3;
    if (weft_wait_some(requests, 2, indices, &ended) != WEFT_ERROR_ABORTED || ended != 2 || requests[0] || requests[1])
        return 4;
    return 0;
}

static void run_everywhere(world_body body, int ranks)
{
    assert_int_equal(world_run(&(struct world){.ranks = ranks}, body, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = ranks, .ranks_per_node = 1}, body, NULL), 0);
}

static void test_some_of_several(void **state)
{
    run_everywhere(some, 2);
}

static void test_a_look_frees_nothing(void **state)
{
    run_everywhere(looked_at, 3);
}

static void test_failed_requests(void **state)
{
    run_everywhere(failed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_some_of_several),
        cmocka_unit_test(test_a_look_frees_nothing),
        cmocka_unit_test(test_failed_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
