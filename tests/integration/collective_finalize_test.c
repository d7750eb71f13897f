/* SPDX-License-Identifier: Apache-2.0 */
/* weft_finalize() ends the context whatever it returns, and leaves its message to the calling thread. */
#include "../world.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

struct ends {
    int port;
    int (*body)(const struct ends *ends, int rank);
    bool grouped; /* rank 1 leaves a group open; otherwise a request in flight */
    bool apart;   /* each rank is a node of its own */
    bool late;    /* rank 1 ends when rank 0 has ended */
    int ended[2]; /* a pipe: nothing comes, it closes with rank 0 */
};

static weft_status open_rank(const struct ends *ends, int rank, weft_context **context)
{
    char bootstrap[64];
    weft_config config = WEFT_CONFIG_DEFAULT;
    snprintf(bootstrap, sizeof bootstrap, "127.0.0.1:%d", ends->port);
    config.rank = rank;
    config.ranks = 2;
    config.rendezvous = bootstrap;
    config.secret = "a secret of tests";
    config.node = ends->apart && rank ? "other" : NULL;
    config.heap_bytes = 64u << 20;
    return weft_init(&config, context);
}

static bool message_is_right(const char *message, const char *call)
{
    bool right = strstr(message, "rank 1 on host") && strstr(message, "weft_finalize()") && strstr(message, call);
    if (!right)
        fprintf(stderr, "'%s' is not the message: %s\n", call, message);
    return right;
}

/* Rank 1 leaves in the middle; rank 0 waits for it in the same operation. */
static int leave_early(const struct ends *ends, int rank)
{
    weft_context *context;
    weft_request *request;
    const char *expected = ends->grouped ? "a group of calls open" : "receive(count 4, f32, from rank 0)";
    float buffer[4] = {0};
    if (open_rank(ends, rank, &context) != WEFT_OK)
        return 1;
    if (rank == 0) {
        weft_status status = weft_barrier(weft_world(context));
        if (status != WEFT_ERROR_STATE || !message_is_right(weft_message(context), expected))
            return 2;
        return weft_finalize(context) == WEFT_OK ? 0 : 3;
    }
    if (ends->grouped ? weft_group_start(context) != WEFT_OK
                      : weft_receive_start(buffer, 4, WEFT_F32, 0, weft_world(context), &request) != WEFT_OK)
        return 4;
    if (weft_finalize(context) != WEFT_ERROR_STATE || !message_is_right(weft_message(NULL), expected))
        return 5;
    /* It has ended: this process can open another one, and finds nothing of the last one's message in it. */
    weft_config alone = WEFT_CONFIG_DEFAULT;
    alone.ranks = 1;
    if (weft_init(&alone, &context) != WEFT_OK || *weft_message(context) || *weft_message(NULL))
        return 6;
    return weft_finalize(context) == WEFT_OK && !*weft_message(NULL) ? 0 : 7;
}

static void run_both(struct ends *ends)
{
    pid_t children[2];
    assert_int_equal(pipe(ends->ended), 0);
    fflush(NULL);
    for (int rank = 0; rank < 2; rank++)
        if ((children[rank] = fork()) == 0) {
            close(ends->ended[rank]); /* rank 0 keeps the end that is written to, rank 1 the other */
            int result = ends->body(ends, rank);
            fflush(NULL);
            _exit(result);
        }
    close(ends->ended[0]);
    close(ends->ended[1]);
    for (int rank = 0; rank < 2; rank++) {
        int status = 0;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void test_a_request_in_flight_ends_the_context_and_the_job(void **state)
{
    run_both(&(struct ends){.port = world_free_port(), .body = leave_early});
}

static void test_an_open_group_ends_the_context_and_the_job(void **state)
{
    run_both(&(struct ends){.port = world_free_port(), .body = leave_early, .grouped = true});
}

/* Each rank takes itself for the root of the last broadcast, in which nobody waits for anybody. */
static int leave_in_disagreement(const struct ends *ends, int rank)
{
    weft_context *context;
    float value = 1;
    if (open_rank(ends, rank, &context) != WEFT_OK)
        return 1;
    if (weft_barrier(weft_world(context)) != WEFT_OK)
        return 2;
    weft_status status = weft_broadcast(&value, 1, WEFT_F32, rank, weft_world(context));
    char message[1024];
    snprintf(message, sizeof message, "%s", weft_message(context));
    char nothing;
    if (ends->late && rank == 1 && read(ends->ended[0], &nothing, 1) != 0)
        return 4;
    weft_status left = weft_finalize(context);
    if (status == WEFT_OK) { /* otherwise the other rank was here already, and has found it */
        status = left;
        snprintf(message, sizeof message, "%s", weft_message(NULL));
    }
    bool right = strstr(message, "broadcast(count 1, f32, root 0)") && strstr(message, "operation 2 of world") &&
                 strstr(message, "broadcast(count 1, f32, root 1)");
    if (status == WEFT_ERROR_MISMATCH && right)
        return 0;
    fprintf(stderr, "rank %d: %s: %s\n", rank, weft_status_name(status), message);
    return 3;
}

static void test_a_disagreement_that_nobody_has_noticed_is_found(void **state)
{
    run_both(&(struct ends){.port = world_free_port(), .body = leave_in_disagreement});
    run_both(&(struct ends){.port = world_free_port(), .body = leave_in_disagreement, .apart = true});
}

/* The job has failed before rank 1 comes to weft_finalize(): no other call can report it. */
static void test_a_failure_that_no_call_has_reported_is_reported(void **state)
{
    run_both(&(struct ends){.port = world_free_port(), .body = leave_in_disagreement, .late = true, .apart = true});
}

/* Completed without a wait: no error. */
static int not_waited_for(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    weft_request *request;
    static float values[2];
    CHECK(weft_allreduce_start(&values[rank], &values[rank], 1, WEFT_F32, WEFT_SUM, world, &request) == WEFT_OK);
    CHECK(weft_barrier(world) == WEFT_OK); /* comes after it in order */
    return 0;
}

static void test_a_completed_request_is_freed(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, not_waited_for, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_in_flight_ends_the_context_and_the_job),
        cmocka_unit_test(test_an_open_group_ends_the_context_and_the_job),
        cmocka_unit_test(test_a_disagreement_that_nobody_has_noticed_is_found),
        cmocka_unit_test(test_a_failure_that_no_call_has_reported_is_reported),
        cmocka_unit_test(test_a_completed_request_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
