/* SPDX-License-Identifier: Apache-2.0 */
/* A call that is given NULL says so in a message of its own, never with the message of another call. */
#include "../world.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

static weft_context *context;

static int open_alone(void **state)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 1;
    config.heap_bytes = 64u << 20;
    return weft_init(&config, &context) == WEFT_OK ? 0 : -1;
}

static int close_alone(void **state)
{
    return weft_finalize(context) == WEFT_OK ? 0 : -1;
}

static void expect_message(weft_status status, const char *text)
{
    assert_int_equal(status, WEFT_ERROR_ARGUMENT);
    assert_string_equal(weft_message(NULL), text);
    assert_string_equal(weft_message(context), text);
    assert_string_equal(weft_message(NULL), text); /* nor does the one lookup change what the other returns */
}

static void test_no_communicator(void **state)
{
    float one = 1;
    weft_request *request = NULL;
    weft_comm *comm = NULL;
    expect_message(weft_allreduce(&one, &one, 1, WEFT_F32, WEFT_SUM, NULL),
                   "allreduce was given NULL as its communicator");
    expect_message(weft_barrier_start(NULL, &request), "barrier was given NULL as its communicator");
    expect_message(weft_send(&one, 1, WEFT_F32, 0, NULL), "send or receive was given NULL as its communicator");
    expect_message(weft_comm_split(NULL, 0, 0, &comm), "weft_comm_split() was given NULL as its communicator");
    expect_message(weft_comm_duplicate(weft_world(context), NULL),
                   "weft_comm_duplicate() was given NULL as its place for the communicator");
    expect_message(weft_comm_subset(NULL, (int[]){0}, 1, &comm),
                   "weft_comm_subset() was given NULL as its communicator");
    expect_message(weft_comm_set_algorithm(NULL, "barrier", NULL),
                   "weft_comm_set_algorithm() was given NULL as its communicator");
    expect_message(weft_comm_set_time_limit(NULL, 1), "weft_comm_set_time_limit() was given NULL as its communicator");
    expect_message(weft_comm_set_reproducible(NULL, true),
                   "weft_comm_set_reproducible() was given NULL as its communicator");
    expect_message(weft_comm_load_schedule(NULL, "x"), "weft_comm_load_schedule() was given NULL as its communicator");
    assert_null(weft_comm_algorithm(NULL, "barrier", 0, WEFT_F32));
    expect_message(WEFT_ERROR_ARGUMENT, "weft_comm_algorithm() was given NULL as its communicator");
    assert_int_equal(weft_comm_free(NULL), WEFT_OK);
}

static void test_no_context(void **state)
{
    expect_message(weft_group_start(NULL), "weft_group_start() was given NULL as its context");
    expect_message(weft_group_end(NULL), "weft_group_end() was given NULL as its context");
    expect_message(weft_shrink(NULL), "weft_shrink() was given NULL as its context");
    expect_message(weft_register(NULL, context, 1), "weft_register() was given NULL as its context");
    expect_message(weft_process_open(1 << 20, NULL), "weft_process_open() was given NULL as its place for the process");
    assert_null(weft_alloc(NULL, 1));
    expect_message(WEFT_ERROR_ARGUMENT, "weft_alloc() was given NULL as its context");
    assert_null(weft_world(NULL));
    expect_message(WEFT_ERROR_ARGUMENT, "weft_world() was given NULL as its context");
}

/* Another call's message neither comes before its own nor stays after it. */
static void test_each_call_has_its_own_message(void **state)
{
    float one = 1;
    assert_int_equal(weft_broadcast(&one, 1, WEFT_F32, 7, weft_world(context)), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(weft_message(context), "root 7"));
    expect_message(weft_barrier(NULL), "barrier was given NULL as its communicator");
    assert_int_equal(weft_broadcast(&one, 1, WEFT_F32, 8, weft_world(context)), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(weft_message(context), "root 8"));
    assert_non_null(strstr(weft_message(NULL), "barrier"));
    assert_int_equal(weft_note_error(context, WEFT_ERROR_DATA, "a library's own"), WEFT_ERROR_DATA);
    assert_string_equal(weft_message(context), "a library's own");
}

static void *other_thread(void *argument)
{
    char *text = argument;
    snprintf(text, 64, "%s|%s", weft_message(NULL), weft_message(context));
    return NULL;
}

/* The message of a thread's refused call is not another thread's message. */
static void test_threads_have_their_own(void **state)
{
    pthread_t thread;
    char text[64];
    assert_int_equal(weft_note_error(context, WEFT_ERROR_DATA, "everybody's"), WEFT_ERROR_DATA);
    expect_message(weft_barrier(NULL), "barrier was given NULL as its communicator");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, text), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(text, "|everybody's");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_communicator),
        cmocka_unit_test(test_no_context),
        cmocka_unit_test(test_each_call_has_its_own_message),
        cmocka_unit_test(test_threads_have_their_own),
    };
    return cmocka_run_group_tests(tests, open_alone, close_alone);
}
