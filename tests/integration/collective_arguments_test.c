/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller may not ask for is refused in a message, before anything is sent; the communicator stays of use. */
#include "../world.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

static weft_context *context;
static weft_comm *comm;

static void refused(weft_status status, const char *word)
{
    assert_int_equal(status, WEFT_ERROR_ARGUMENT);
    if (!strstr(weft_message(context), word))
        fail_msg("'%s' is not in: %s", word, weft_message(context));
    float one = 1;
    assert_int_equal(weft_allreduce(&one, &one, 1, WEFT_F32, WEFT_SUM, comm), WEFT_OK);
}

static int open_alone(void **state)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 1;
    config.heap_bytes = 64u << 20;
    if (weft_init(&config, &context) != WEFT_OK)
        return -1;
    comm = weft_world(context);
    return 0;
}

static int close_alone(void **state)
{
    return weft_finalize(context) == WEFT_OK ? 0 : -1;
}

static void counts_that_overflow(void **state)
{
    float buffer[4] = {0};
    refused(weft_allreduce(buffer, buffer, SIZE_MAX / 2, WEFT_F64, WEFT_SUM, comm), "overflow");
    refused(weft_allgather(buffer, buffer, SIZE_MAX / 4 + 1, WEFT_F32, comm), "overflow");
    size_t counts[1] = {SIZE_MAX / 2}, displacements[1] = {SIZE_MAX - 1};
    refused(weft_allgatherv(buffer, buffer, counts, NULL, WEFT_F64, comm), "overflow");
    counts[0] = 2;
    refused(weft_allgatherv(buffer, buffer, counts, displacements, WEFT_F64, comm), "overflow");
}

static void missing_buffers_and_counts(void **state)
{
    float buffer[4] = {0};
    refused(weft_allreduce(NULL, buffer, 4, WEFT_F32, WEFT_SUM, comm), "NULL as its input");
    refused(weft_allreduce(buffer, NULL, 4, WEFT_F32, WEFT_SUM, comm), "NULL as its output");
    refused(weft_gatherv(buffer, buffer, NULL, NULL, WEFT_F32, 0, comm), "NULL as the counts");
    refused(weft_scatterv(buffer, NULL, NULL, buffer, WEFT_F32, 0, comm), "NULL as the counts");
    assert_int_equal(weft_allreduce(NULL, NULL, 0, WEFT_F32, WEFT_SUM, comm), WEFT_OK);
    refused(weft_allreduce_start(buffer, buffer, 4, WEFT_F32, WEFT_SUM, comm, NULL),
            "without a pointer for its request");
}

static void overlapping_buffers(void **state)
{
    float buffer[8] = {0};
    refused(weft_allreduce(buffer, buffer + 1, 4, WEFT_F32, WEFT_SUM, comm), "overlap");
    size_t counts[1] = {4}, displacements[1] = {1};
    refused(weft_alltoallv(buffer, counts, NULL, buffer, counts, displacements, WEFT_F32, comm), "overlap");
    assert_int_equal(weft_alltoallv(buffer, counts, displacements, buffer, counts, displacements, WEFT_F32, comm),
                     WEFT_OK);
    size_t packed[1] = {0};
    assert_int_equal(weft_alltoallv(buffer, counts, NULL, buffer, counts, packed, WEFT_F32, comm), WEFT_OK);
    refused(weft_scatterv(buffer, counts, displacements, buffer, WEFT_F32, 0, comm), "overlap");
    assert_int_equal(weft_scatterv(buffer, counts, displacements, buffer + 1, WEFT_F32, 0, comm), WEFT_OK);
}

static void values_that_are_none(void **state)
{
    float buffer[4] = {0};
    refused(weft_allreduce(buffer, buffer, 4, (weft_type)77, WEFT_SUM, comm), "77");
    refused(weft_allreduce(buffer, buffer, 4, WEFT_F32, WEFT_OP_LITERAL((weft_op_kind)99, 1), comm), "99 as its op");
    refused(weft_allreduce(buffer, buffer, 4, WEFT_I32, WEFT_SCALED_SUM(0.5), comm), "floating-point");
    refused(weft_allreduce(buffer, buffer, 4, WEFT_F32, WEFT_BITWISE_OR, comm), "integers and bool only");
    refused(weft_allreduce(buffer, buffer, 4, WEFT_BF16, WEFT_LOGICAL_XOR, comm), "integers and bool only");
    refused(weft_allreduce(buffer, buffer, 4, WEFT_BOOL, WEFT_SUM, comm), "numbers only");
    refused(weft_scan(buffer, buffer, 4, WEFT_F32, WEFT_AVERAGE, comm), "use sum, and divide");
    refused(weft_broadcast(buffer, 4, WEFT_F32, 1, comm), "root 1");
    refused(weft_broadcast(buffer, 4, WEFT_F32, -1, comm), "root -1");
    refused(weft_send(buffer, 4, WEFT_F32, 3, comm), "peer 3");
    refused(weft_receive(buffer, 4, WEFT_F32, 0, comm), "itself");
}

static void choices_that_are_none(void **state)
{
    refused(weft_comm_set_algorithm(comm, "alreduce", NULL), "allreduce");
    refused(weft_comm_set_algorithm(comm, "allreduce", "rings"), "ring");
    refused(weft_comm_set_time_limit(comm, -1), "-1");
    refused(weft_comm_free(comm), "weft_finalize");
    int ranks[2] = {0, 0};
    weft_comm *subset;
    refused(weft_comm_subset(comm, ranks, 2, &subset), "twice");
    refused(weft_comm_subset(comm, ranks, 0, &subset), "at least one");
}

static void groups_that_do_not_fit(void **state)
{
    assert_int_equal(weft_group_end(context), WEFT_ERROR_STATE);
    assert_int_equal(weft_group_start(context), WEFT_OK);
    assert_int_equal(weft_group_start(context), WEFT_ERROR_STATE);
    weft_request *request;
    float one = 1;
    weft_comm *copy;
    assert_int_equal(weft_allreduce_start(&one, &one, 1, WEFT_F32, WEFT_SUM, comm, &request), WEFT_OK);
    assert_int_equal(weft_wait(&request), WEFT_ERROR_STATE);
    assert_int_equal(weft_comm_duplicate(comm, &copy), WEFT_ERROR_STATE);
    assert_int_equal(weft_group_end(context), WEFT_OK);
    assert_int_equal(weft_wait(&request), WEFT_OK);
    assert_null(request);
}

static void configurations_that_do_not_fit(void **state)
{
    weft_context *none = NULL;
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.size = 3;
    assert_int_equal(weft_init(&config, &none), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(weft_message(NULL), "sizeof(weft_config)"));
    config.size = sizeof config;
    config.ranks = 2;
    config.rank = 2;
    assert_int_equal(weft_init(&config, &none), WEFT_ERROR_ARGUMENT);
    config.rank = 0;
    assert_int_equal(weft_init(&config, &none), WEFT_ERROR_ARGUMENT);
    config.ranks = 1;
    config.heap_bytes = 1ull << 60;
    assert_int_equal(weft_init(&config, &none), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(weft_message(NULL), "address space"));
    assert_null(none);
}

static void a_heap_that_is_full(void **state)
{
    assert_null(weft_alloc(context, 1u << 30));
    assert_true(strlen(weft_message(context)) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_that_overflow),  cmocka_unit_test(missing_buffers_and_counts),
        cmocka_unit_test(overlapping_buffers),   cmocka_unit_test(values_that_are_none),
        cmocka_unit_test(choices_that_are_none), cmocka_unit_test(groups_that_do_not_fit),
        cmocka_unit_test(a_heap_that_is_full),   cmocka_unit_test(configurations_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, open_alone, close_alone);
}
