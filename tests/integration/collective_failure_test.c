/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When ranks do not fit together, every rank gets the same status and one message that says who did what: mismatched
 * calls, crossed blocking calls, time limits, aborts, deaths, a schedule that was overwritten in memory.
 */
#include "../world.h"
#include "base/clock.h"
#include "core/collective/communicator/context.h"

#include <signal.h>
#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

/* The first argument of every body: what all ranks must end with. */
struct expected {
    weft_status status;
    const char *words[6]; /* all of them are in the message */
    double within;        /* seconds */
};

static int check_end(weft_context *context, int rank, weft_status status, const struct expected *expected,
                     uint64_t began)
{
    const char *message = weft_message(context);
    double seconds = (double)(clock_now() - began) * 1e-9;
    if (rank == 0)
        fprintf(stderr, "  %.2f s: %s\n", seconds, message);
    if (status != expected->status) {
        fprintf(stderr, "rank %d: status %s, not %s: %s\n", rank, weft_status_name(status),
                weft_status_name(expected->status), message);
        return 1;
    }
    for (int i = 0; i < 6 && expected->words[i]; i++)
        if (!strstr(message, expected->words[i])) {
            fprintf(stderr, "rank %d: '%s' is not in: %s\n", rank, expected->words[i], message);
            return 2;
        }
    if (seconds > expected->within) {
        fprintf(stderr, "rank %d: it took %.1f s\n", rank, seconds);
        return 3;
    }
    /* The context is broken: the same again, at once. */
    char kept[1024];
    snprintf(kept, sizeof kept, "%s", message);
    if (weft_barrier(weft_world(context)) != expected->status || strcmp(weft_message(context), kept) != 0) {
        fprintf(stderr, "rank %d: a later call ended otherwise: %s\n", rank, weft_message(context));
        return 4;
    }
    return 0;
}

/* Seven operations that fit, then one that does not. */
static weft_status warm_up(weft_comm *world)
{
    weft_status status = WEFT_OK;
    float value = 1;
    for (int i = 0; i < 6 && status == WEFT_OK; i++)
        status = weft_allreduce(&value, &value, 1, WEFT_F32, WEFT_MAX, world);
    return status;
}

static int other_count(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    float buffer[2048] = {0};
    weft_status status = warm_up(world);
    uint64_t began = clock_now();
    if (status == WEFT_OK)
        status = weft_allreduce(buffer, buffer, rank == 0 ? 1024 : 1023, WEFT_F32, WEFT_SUM, world);
    return check_end(context, rank, status, argument, began);
}

static int other_tiny_type(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    uint64_t value = 0;
    weft_status status = warm_up(world);
    uint64_t began = clock_now();
    if (status == WEFT_OK)
        status = weft_allreduce(&value, &value, 1, rank == 0 ? WEFT_I32 : WEFT_U32, WEFT_SUM, world);
    return check_end(context, rank, status, argument, began);
}

/* Who takes itself for the root of a broadcast waits for nobody, and nobody reads what it gives. */
static int own_roots(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    float value = 1;
    weft_status status = warm_up(world);
    uint64_t began = clock_now();
    for (int i = 0; i < 200 && status == WEFT_OK; i++)
        status = weft_broadcast(&value, 1, WEFT_F32, (uint32_t)rank, world);
    return check_end(context, rank, status, argument, began);
}

/* The same once; then calls that agree. */
static int own_root_once(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    float value = 1;
    weft_status status = warm_up(world);
    uint64_t began = clock_now();
    if (status == WEFT_OK)
        status = weft_broadcast(&value, 1, WEFT_F32, rank == 2 ? 2 : 0, world);
    for (int i = 0; i < 5 && status == WEFT_OK; i++)
        status = weft_allreduce(&value, &value, 1, WEFT_F32, WEFT_SUM, world);
    return check_end(context, rank, status, argument, began);
}

static int other_collective(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    float *buffer = calloc(100000, 4);
    weft_status status = warm_up(world);
    uint64_t began = clock_now();
    if (status == WEFT_OK)
        status = rank == 0 ? weft_allreduce(buffer, buffer, 100000, WEFT_F32, WEFT_SUM, world)
                           : weft_broadcast(buffer, 4, WEFT_F32, 0, world);
    free(buffer);
    return check_end(context, rank, status, argument, began);
}

static int other_message_size(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    float buffer[64] = {0};
    uint64_t began = clock_now();
    weft_status status =
        rank == 0 ? weft_send(buffer, 64, WEFT_F32, 1, world) : weft_receive(buffer, 32, WEFT_F32, 0, world);
    if (status == WEFT_OK)
        status = weft_barrier(world);
    return check_end(context, rank, status, argument, began);
}

static int crossed(weft_context *context, int rank, void *argument)
{
    weft_comm *a, *b;
    float value = 1;
    if (weft_comm_duplicate(weft_world(context), &a) != WEFT_OK ||
        weft_comm_duplicate(weft_world(context), &b) != WEFT_OK)
        return 1;
    uint64_t began = clock_now();
    weft_status status = weft_allreduce(&value, &value, 1, WEFT_F32, WEFT_SUM, rank == 0 ? a : b);
    if (status == WEFT_OK)
        status = weft_barrier(rank == 0 ? b : a);
    return check_end(context, rank, status, argument, began);
}

static int too_late(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    weft_comm_set_time_limit(world, 1.5);
    uint64_t began = clock_now();
    weft_status status = WEFT_OK;
    if (rank == 1)
        usleep(3500000);
    status = weft_barrier(world);
    return check_end(context, rank, status, argument, began);
}

/*
 * Rank 3 hands on what it gets from 0: one half to 1, the other to 2, which swap them. When it is late, 0 is done, and
 * 1 and 2 wait for one another.
 */
static const char swap[] = "weft schedule 1\ncollective broadcast\nalgorithm swap\nranks 4\nparts 2\n"
                           "rank 0\nlane 0\nsend output[0..1] to 3\n"
                           "rank 1\nlane 0\nreceive from 3 into output[0]\nsend output[0] to 2\n"
                           "lane 1\nreceive from 2 into output[1]\n"
                           "rank 2\nlane 0\nreceive from 3 into output[1]\nsend output[1] to 1\n"
                           "lane 1\nreceive from 1 into output[0]\n"
                           "rank 3\nlane 0\nreceive from 0 into output[0..1]\nsend output[0] to 1\n"
                           "send output[1] to 2\n";

static int too_late_to_hand_on(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    char path[64];
    float values[2] = {1, 2};
    snprintf(path, sizeof path, "/tmp/weft-swap-%d-%d", getpid(), rank);
    FILE *file = fopen(path, "w");
    fputs(swap, file);
    fclose(file);
    weft_status status = weft_comm_load_schedule(world, path);
    unlink(path);
    CHECK(status == WEFT_OK);
    weft_comm_set_time_limit(world, 1.5);
    uint64_t began = clock_now();
    if (rank == 3)
        usleep(3500000);
    status = weft_broadcast(values, 2, WEFT_F32, 0, world);
    if (rank == 0 && status == WEFT_OK) {
        usleep(3500000);
        status = weft_barrier(world);
    }
    return check_end(context, rank, status, argument, began);
}

static int aborted(weft_context *context, int rank, void *argument)
{
    uint64_t began = clock_now();
    if (rank == 1) {
        usleep(200000);
        weft_abort(context, "the milk is sour");
    }
    return check_end(context, rank, weft_barrier(weft_world(context)), argument, began);
}

/* A request in flight ends with the failure as well, and is freed by its wait. */
static int aborted_in_flight(weft_context *context, int rank, void *argument)
{
    float *buffer = calloc(1000000, 4);
    weft_request *request = NULL;
    uint64_t began = clock_now();
    if (rank == 1) {
        usleep(200000);
        weft_abort(context, "the milk is sour");
    } else if (weft_allreduce_start(buffer, buffer, 1000000, WEFT_F32, WEFT_SUM, weft_world(context), &request) !=
               WEFT_OK) {
        return 1;
    }
    weft_status status = rank == 1 ? weft_barrier(weft_world(context)) : weft_wait(&request);
    free(buffer);
    return check_end(context, rank, status, argument, began);
}

static int killed(weft_context *context, int rank, void *argument)
{
    weft_status status = WEFT_OK;
    uint64_t began = clock_now();
    float *buffer = weft_alloc(context, 1 << 20);
    while (status == WEFT_OK) {
        if (rank == 1 && clock_now() - began > 300000000u)
            kill(getpid(), SIGKILL);
        status = weft_allreduce(buffer, buffer, 1 << 18, WEFT_F32, WEFT_SUM, weft_world(context));
    }
    return check_end(context, rank, status, argument, began);
}

/* A stopped process keeps its connections: it is silence that tells. */
static int stopped(weft_context *context, int rank, void *argument)
{
    weft_status status = WEFT_OK;
    uint64_t began = clock_now(), stop_at = began + 300000000u;
    float *buffer = weft_alloc(context, 1 << 20);
    while (status == WEFT_OK) {
        if (rank == 1 && clock_now() > stop_at) {
            world_kill_later(4000000); /* nobody else wakes it */
            kill(getpid(), SIGSTOP);
        }
        status = weft_allreduce(buffer, buffer, 1 << 18, WEFT_F32, WEFT_SUM, weft_world(context));
    }
    return check_end(context, rank, status, argument, stop_at);
}

/* Flip a bit of a kept schedule of the collective under test. */
static int corrupted(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    float buffer[64] = {0}, gathered[64] = {0};
    weft_status status = WEFT_OK;
    uint64_t began = clock_now();
    const struct expected *expected = argument;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        status = !strcmp(expected->words[0], "barrier") ? weft_barrier(world)
                 : !strcmp(expected->words[0], "allreduce")
                     ? weft_allreduce(buffer, buffer, 1, WEFT_F32, WEFT_SUM, world)
                 : !strcmp(expected->words[0], "broadcast") ? weft_broadcast(buffer, 64, WEFT_F32, 0, world)
                 : !strcmp(expected->words[0], "alltoall")  ? weft_alltoall(buffer, gathered, 1, WEFT_F32, world)
                 : rank == 0                                ? weft_send(buffer, 3, WEFT_F32, 1, world)
                                                            : weft_receive(buffer, 3, WEFT_F32, 0, world);
        if (i == 0 && rank == 1 && status == WEFT_OK) {
            struct schedule *schedule = world->schedules.last->schedule;
            schedule->steps[0].source_chunk ^= 1;
        }
    }
    if (status == WEFT_OK) /* a message's sender may be through before its receiver fails */
        status = weft_barrier(world);
    return check_end(context, rank, status, argument, began);
}

/* The end of what a kept schedule holds. */
static const char *schedule_end(const struct schedule *schedule)
{
    uint32_t members = 0;
    for (uint32_t g = 0; g < schedule->group_count; g++)
        if (schedule->groups[g].first + schedule->groups[g].count > members)
            members = schedule->groups[g].first + schedule->groups[g].count;
    return members ? (const char *)(schedule->members + members)
                   : (const char *)(schedule->groups + schedule->group_count);
}

/* Change each byte of each kept schedule in turn: the checksum notices. */
static int every_byte(weft_context *context, int rank, void *argument)
{
    weft_comm *world = weft_world(context);
    float input[64] = {0}, output[64] = {0};
    struct error error = {0};
    size_t count;
    int wrong = 0;
    const struct algorithm *algorithms = algorithms_of(COLLECTIVE_ALLREDUCE, &count);
    for (size_t a = 0; a < count; a++)
        if (weft_comm_set_algorithm(world, "allreduce", algorithms[a].name) == WEFT_OK)
            wrong += weft_allreduce(input, output, 8, WEFT_F32, WEFT_SUM, world) != WEFT_OK;
    wrong += weft_alltoall(input, output, 1, WEFT_F32, world) != WEFT_OK || weft_barrier(world) != WEFT_OK;
    for (int b = 0; b < SCHEDULE_CACHE_BUCKETS; b++)
        for (struct schedule_entry *entry = world->schedules.buckets[b]; entry; entry = entry->next) {
            wrong += schedule_entry_verify(entry, world, &error) != WEFT_OK;
            const char *end = schedule_end(entry->schedule);
            for (char *byte = (char *)entry->schedule; byte < end; byte++) {
                *byte ^= 0x10;
                if (schedule_entry_verify(entry, world, &error) != WEFT_ERROR_SCHEDULE) {
                    fprintf(stderr, "rank %d: byte %td of %td of a schedule of %s is not covered\n", rank,
                            byte - (char *)entry->schedule, end - (char *)entry->schedule,
                            collective_name((enum collective)entry->key.collective));
                    wrong++;
                }
                *byte ^= 0x10;
            }
        }
    return wrong;
}

static void run(struct world world, world_body body, struct expected expected)
{
    assert_int_equal(world_run(&world, body, &expected), 0);
}

static void test_mismatched_counts_name_both_calls(void **state)
{
    struct expected expected = {
        WEFT_ERROR_MISMATCH,
        {"count 1024, f32, sum", "count 1023, f32, sum", "operation 7 of world", "rank 0", "rank 1"},
        3};
    run((struct world){.ranks = 2}, other_count, expected);
    run((struct world){.ranks = 2, .processes = true}, other_count, expected);
    run((struct world){.ranks = 2, .ranks_per_node = 1}, other_count, expected);
}

static void test_mismatched_types_of_tiny_calls(void **state)
{
    run((struct world){.ranks = 2}, other_tiny_type,
        (struct expected){WEFT_ERROR_MISMATCH, {"count 1, i32, sum", "count 1, u32, sum", "operation 7 of world"}, 3});
}

static void test_other_roots_are_named_though_nobody_waits(void **state)
{
    run((struct world){.ranks = 3}, own_roots,
        (struct expected){WEFT_ERROR_MISMATCH, {"broadcast(count 1, f32, root ", "operation 7 of world"}, 3});
    run((struct world){.ranks = 3}, own_root_once,
        (struct expected){WEFT_ERROR_MISMATCH, {"f32, root 0)", "f32, root 2)", "operation 7 of world"}, 3});
}

static void test_mismatched_collectives(void **state)
{
    struct expected expected = {WEFT_ERROR_MISMATCH,
                                {"allreduce(count 100000, f32, sum)", "broadcast(count 4, f32, root 0)", "operation 7"},
                                5};
    run((struct world){.ranks = 2}, other_collective, expected);
    run((struct world){.ranks = 2, .ranks_per_node = 1}, other_collective, expected);
}

static void test_mismatched_messages(void **state)
{
    struct expected expected = {
        WEFT_ERROR_MISMATCH, {"send(count 64, f32, to rank 1)", "receive(count 32, f32, from rank 0)", "message 1"}, 5};
    run((struct world){.ranks = 2}, other_message_size, expected);
    run((struct world){.ranks = 2, .ranks_per_node = 1}, other_message_size, expected);
}

static void test_crossed_calls_are_named_as_a_cycle(void **state)
{
    run((struct world){.ranks = 2}, crossed,
        (struct expected){
            WEFT_ERROR_MISMATCH,
            {"blocking calls cross", "communicator 2", "communicator 3", "rank 0 is blocked", "rank 1 is blocked"},
            6});
}

static void test_time_limit_names_who_is_awaited(void **state)
{
    run((struct world){.ranks = 2}, too_late,
        (struct expected){WEFT_ERROR_TIMEOUT, {"time limit", "rank 1 on host", "barrier()", "alive"}, 6});
    run((struct world){.ranks = 4}, too_late_to_hand_on,
        (struct expected){WEFT_ERROR_TIMEOUT, {"time limit", "for rank 3 on host", "broadcast(", "has not called"}, 6});
}

static void test_abort_gives_its_reason_to_all(void **state)
{
    struct expected expected = {WEFT_ERROR_ABORTED, {"the milk is sour", "rank 1"}, 2};
    run((struct world){.ranks = 3}, aborted, expected);
    run((struct world){.ranks = 2, .processes = true}, aborted_in_flight, expected);
    run((struct world){.ranks = 2, .ranks_per_node = 1}, aborted_in_flight, expected);
}

static void test_a_killed_rank_is_named_by_all_survivors(void **state)
{
    struct expected expected = {
        WEFT_ERROR_PEER, {"rank 1", "host", "it was ", "allreduce(", "here was "}, 2.5}; /* blocked, or about to be */
    assert_int_equal(world_run(&(struct world){.ranks = 3, .processes = true}, killed, &expected), 1);
    assert_int_equal(world_run(&(struct world){.ranks = 2, .processes = true, .ranks_per_node = 1}, killed, &expected),
                     1);
}

static void test_a_stopped_rank_is_named_by_all_survivors(void **state)
{
    struct expected expected = {
        WEFT_ERROR_PEER, {"rank 1", "host", "no sign of life", "allreduce(", "here was blocked in"}, 2.5};
    assert_int_equal(world_run(&(struct world){.ranks = 3, .processes = true}, stopped, &expected), 1);
    assert_int_equal(world_run(&(struct world){.ranks = 2, .processes = true, .ranks_per_node = 1}, stopped, &expected),
                     1);
}

static void test_a_corrupted_schedule_is_not_executed(void **state)
{
    const char *collectives[] = {"allreduce", "broadcast", "alltoall", "barrier", "sendreceive"};
    for (int i = 0; i < 5; i++)
        run((struct world){.ranks = 2}, corrupted,
            (struct expected){WEFT_ERROR_SCHEDULE, {collectives[i], "has changed since it was made"}, 3});
}

static void test_every_byte_of_a_kept_schedule_is_covered(void **state)
{
    static const int nodes[] = {0, 1, 0, 0, 1};
    for (int ranks = 1; ranks <= 5; ranks++)
        assert_int_equal(world_run(&(struct world){.ranks = ranks}, every_byte, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 5, .node_of = nodes}, every_byte, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatched_counts_name_both_calls),
        cmocka_unit_test(test_mismatched_types_of_tiny_calls),
        cmocka_unit_test(test_other_roots_are_named_though_nobody_waits),
        cmocka_unit_test(test_mismatched_collectives),
        cmocka_unit_test(test_mismatched_messages),
        cmocka_unit_test(test_crossed_calls_are_named_as_a_cycle),
        cmocka_unit_test(test_time_limit_names_who_is_awaited),
        cmocka_unit_test(test_abort_gives_its_reason_to_all),
        cmocka_unit_test(test_a_killed_rank_is_named_by_all_survivors),
        cmocka_unit_test(test_a_stopped_rank_is_named_by_all_survivors),
        cmocka_unit_test(test_a_corrupted_schedule_is_not_executed),
        cmocka_unit_test(test_every_byte_of_a_kept_schedule_is_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
