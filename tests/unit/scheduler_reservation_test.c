/* SPDX-License-Identifier: Apache-2.0 */
/* Who has waited for long gets whole hosts, although others keep coming that would fill each hole. */
#include "platform/scheduler/outlook.h"
#include "platform/scheduler/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR 3600.0
#define RUNS 300

static const struct scheduler_policy policy = SCHEDULER_POLICY_DEFAULT;

static struct scheduler *cluster(uint32_t pods, uint32_t hosts, uint32_t slots)
{
    struct error error = {0};
    struct scheduler *scheduler = scheduler_new(&policy, &error);
    assert_non_null(scheduler);
    for (uint32_t p = 0; p < pods; p++)
        assert_int_equal(scheduler_add_pod(scheduler, hosts, slots, &error), WEFT_OK);
    return scheduler;
}

static uint32_t submit_fixed(struct scheduler *scheduler, uint32_t nodes, uint32_t slots, double limit, double now)
{
    struct scheduler_request request = {.gang = {.nodes = nodes, .slots = (uint16_t)slots},
                                        .slots = nodes * slots,
                                        .weight = 1,
                                        .limit = limit,
                                        .fixed = true};
    struct error error = {0};
    uint32_t run;
    assert_int_equal(scheduler_submit(scheduler, &request, now, &run, &error), WEFT_OK);
    return run;
}

/* Runs that end by themselves. */
struct stream {
    struct scheduler *scheduler;
    double ends[RUNS]; /* 0: does not run */
};

/* A pass, after those have ended whose time it is; what starts lasts for `lasts` seconds, or for 100 more. */
static void stream_pass(struct stream *stream, double now, double lasts, uint32_t watched, bool *started)
{
    const struct scheduler_decision *decisions;
    struct error error = {0};
    size_t count;
    for (uint32_t r = 0; r < RUNS; r++) {
        if (stream->ends[r] == 0 || stream->ends[r] > now)
            continue;
        assert_int_equal(scheduler_finish(stream->scheduler, r, now, &error), WEFT_OK);
        stream->ends[r] = 0;
    }
    *started = false;
    assert_int_equal(scheduler_pass(stream->scheduler, now, &decisions, &count, &error), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(decisions[i].kind, SCHEDULER_START);
        stream->ends[decisions[i].run] = now + lasts + (i % 2 ? 100 : 0);
        *started = *started || decisions[i].run == watched;
    }
}

/* Runs without checkpoints keep coming, each before the last has ended: what needs the whole host gets it all the same.
 */
static void small_runs_keep_no_large_one_waiting(void **state)
{
    const double limit = 600, lasts = 400;
    for (uint32_t hosts = 1; hosts <= 3; hosts++) {
        struct stream stream = {.scheduler = cluster(1, hosts, 2)};
        struct outlook outlooks[RUNS];
        uint32_t whole = POOL_NOBODY;
        double now = 0, since = 5000;
        bool started = false, told = false;
        for (; now < since + 4 * HOUR && !started; now += 100) {
            while (scheduler_queued(stream.scheduler) < 2 + (whole != POOL_NOBODY))
                submit_fixed(stream.scheduler, 1, 1, limit, now);
            if (now == since)
                whole = submit_fixed(stream.scheduler, hosts, 2, limit, now);
            stream_pass(&stream, now, lasts, whole, &started);
            assert_int_equal(outlook_all(stream.scheduler, now, outlooks, NULL), WEFT_OK);
            for (uint32_t i = 0; i < scheduler_queued(stream.scheduler); i++) {
                char text[512];
                outlook_say(&outlooks[i], now, text, sizeof text);
                told = told || strstr(text, "are kept for a larger run") ||
                       strstr(text, "is free, on hosts that are kept");
                if (outlooks[i].run == whole && now >= since + policy.patience + 100)
                    assert_true(outlooks[i].expected_start <= now + limit);
            }
        }
        assert_true(started && told);
        assert_true(now - since <= policy.patience + limit + 300);
        scheduler_free(stream.scheduler);
    }
}

/* What must have ended before the last of the hosts can be empty may have the others until then. */
static void reserved_hosts_are_used_until_they_are_needed(void **state)
{
    struct stream stream = {.scheduler = cluster(1, 2, 4)};
    bool started;
    submit_fixed(stream.scheduler, 1, 4, 10 * HOUR, 0);
    stream_pass(&stream, 0, 10 * HOUR, 0, &started);
    uint32_t both = submit_fixed(stream.scheduler, 2, 4, HOUR, 0);
    stream_pass(&stream, policy.patience, HOUR, both, &started);
    assert_false(started);
    uint32_t longer = submit_fixed(stream.scheduler, 1, 1, 10 * HOUR, 1000);
    stream_pass(&stream, 1000, 10 * HOUR, longer, &started);
    assert_false(started);
    uint32_t shorter = submit_fixed(stream.scheduler, 1, 3, 9 * HOUR, 1000);
    stream_pass(&stream, 1000, 9 * HOUR, shorter, &started);
    assert_true(started);
    /* The run with the reservation is no longer first, but its reservation stands. */
    stream_pass(&stream, 10 * HOUR, HOUR, both, &started);
    assert_true(started);
    scheduler_free(stream.scheduler);
}

/* After a run reserved all hosts for 900 seconds, others run for as long before the next exclusive reservation. */
static void an_exclusive_reservation_leaves_others_their_share(void **state)
{
    struct stream stream = {.scheduler = cluster(1, 2, 2)};
    bool started;
    submit_fixed(stream.scheduler, 1, 1, 1000, 0);
    stream_pass(&stream, 0, 1000, 0, &started);
    uint32_t wide = submit_fixed(stream.scheduler, 2, 2, 900, 0);
    stream_pass(&stream, policy.patience, 900, wide, &started);
    assert_false(started);
    stream_pass(&stream, 1000, 900, wide, &started);
    assert_true(started);
    submit_fixed(stream.scheduler, 2, 2, 900, 1200);
    uint32_t small = submit_fixed(stream.scheduler, 1, 1, 10 * HOUR, 1850);
    stream_pass(&stream, 1900, 10 * HOUR, small, &started);
    assert_true(started);
    small = submit_fixed(stream.scheduler, 1, 1, 10 * HOUR, 2700);
    stream_pass(&stream, 2700, 100, small, &started);
    assert_true(started);
    stream_pass(&stream, 2900, 900, small, &started);
    small = submit_fixed(stream.scheduler, 1, 1, 10 * HOUR, 3000);
    stream_pass(&stream, 3000, 900, small, &started);
    assert_false(started);
    scheduler_free(stream.scheduler);
}

/* A run that cannot start any more, because hosts are out of use, loses its reservation to others. */
static void a_reservation_ends_with_its_run(void **state)
{
    struct stream stream = {.scheduler = cluster(1, 2, 2)};
    bool started;
    submit_fixed(stream.scheduler, 1, 1, 10 * HOUR, 0);
    stream_pass(&stream, 0, 10 * HOUR, 0, &started);
    submit_fixed(stream.scheduler, 2, 2, HOUR, 0);
    stream_pass(&stream, policy.patience, HOUR, 0, &started);
    const struct pool *pool = scheduler_pool(stream.scheduler);
    scheduler_drain_host(stream.scheduler, pool->hosts[0].occupants ? 1 : 0, true);
    submit_fixed(stream.scheduler, 1, 2, HOUR, policy.patience);
    stream_pass(&stream, policy.patience + 1, HOUR, 0, &started);
    stream_pass(&stream, 3 * policy.patience, HOUR, 0, &started);
    uint32_t small = submit_fixed(stream.scheduler, 1, 1, 10 * HOUR, 3 * policy.patience);
    stream_pass(&stream, 3 * policy.patience, HOUR, small, &started);
    assert_false(started);
    scheduler_free(stream.scheduler);
}

/* With checkpoints it takes a day: until then hosts are only emptied of what may be preempted. The run that reserved them
 * stays. */
static void the_whole_cluster_is_had_in_the_end(void **state)
{
    struct scheduler *scheduler = cluster(1, 4, 4);
    const struct scheduler_decision *decisions;
    struct error error = {0};
    size_t count;
    uint32_t all = POOL_NOBODY, run;
    double now = 0, since = 10 * HOUR, ends[RUNS] = {0};
    struct scheduler_request half = {.gang = {.nodes = 2, .slots = 4}, .slots = 8, .weight = 1};
    struct scheduler_request whole = {.gang = {.nodes = 4, .slots = 4}, .slots = 16, .weight = 1};
    bool has_all = false;
    /* Half of the cluster is asked for again and again, and one half is free when the other is not. */
    for (; now < 400 * HOUR && !has_all; now += 300) {
        for (uint32_t r = 0; r < RUNS; r++) {
            if (ends[r] == 0 || ends[r] > now)
                continue;
            assert_int_equal(scheduler_finish(scheduler, r, now, &error), WEFT_OK);
            ends[r] = 0;
        }
        while (scheduler_queued(scheduler) < 12)
            assert_int_equal(scheduler_submit(scheduler, &half, now, &run, &error), WEFT_OK);
        if (now == since)
            assert_int_equal(scheduler_submit(scheduler, &whole, now, &all, &error), WEFT_OK);
        assert_int_equal(scheduler_pass(scheduler, now, &decisions, &count, &error), WEFT_OK);
        for (size_t i = 0; i < count; i++) {
            ends[decisions[i].run] = decisions[i].kind == SCHEDULER_DISPLACE ? 0 : now + (i ? 7 : 5) * HOUR;
            has_all = has_all || decisions[i].run == all;
        }
    }
    assert_true(has_all && now - since <= 48 * HOUR);
    for (double end = now + 100 * HOUR; now < end; now += 300) {
        assert_int_equal(scheduler_pass(scheduler, now, &decisions, &count, &error), WEFT_OK);
        assert_int_equal(count, 0);
    }
    scheduler_free(scheduler);
}

#define SHAPES 200

/* Many shapes wait while hosts are reserved: each starts where its slots are free, or not at all. */
static void any_number_of_shapes_may_wait_during_a_reservation(void **state)
{
    struct scheduler *scheduler = cluster(1, 4, 64);
    const struct scheduler_decision *decisions;
    struct error error = {0};
    struct gang gangs[SHAPES + 5] = {0};
    uint32_t taken[4] = {0};
    size_t count;
    /* Three hosts are full, and the fourth has 10 slots left; a run reserves all four. */
    for (uint32_t i = 0; i < 4; i++)
        submit_fixed(scheduler, 1, i < 3 ? 64 : 54, 10 * HOUR, 0);
    assert_int_equal(scheduler_pass(scheduler, 0, &decisions, &count, &error), WEFT_OK);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        taken[decisions[i].hosts[0]] += decisions[i].run < 3 ? 64 : 54;
    submit_fixed(scheduler, 4, 64, HOUR, 0);
    assert_int_equal(scheduler_pass(scheduler, policy.patience, &decisions, &count, &error), WEFT_OK);
    assert_int_equal(count, 0);
    for (uint32_t i = 0; i < SHAPES; i++) {
        struct gang gang = {.nodes = 1 + i % 4, .slots = (uint16_t)(64 - i / 4)};
        gangs[submit_fixed(scheduler, gang.nodes, gang.slots, HOUR, 1000)] = gang;
    }
    for (double now = 1000; now < 1600; now += 300) {
        assert_int_equal(scheduler_pass(scheduler, now, &decisions, &count, &error), WEFT_OK);
        for (size_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < gangs[decisions[i].run].nodes; k++) {
                assert_true(decisions[i].hosts[k] < 4);
                taken[decisions[i].hosts[k]] += gangs[decisions[i].run].slots;
                assert_true(taken[decisions[i].hosts[k]] <= 64);
            }
    }
    assert_int_equal(scheduler_queued(scheduler), SHAPES + 1);
    /* What fits in the 10 slots ends before the others must have ended. */
    submit_fixed(scheduler, 1, 10, HOUR, 1600);
    assert_int_equal(scheduler_pass(scheduler, 1600, &decisions, &count, &error), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(taken[decisions[0].hosts[0]], 54);
    scheduler_free(scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_runs_keep_no_large_one_waiting),
        cmocka_unit_test(reserved_hosts_are_used_until_they_are_needed),
        cmocka_unit_test(an_exclusive_reservation_leaves_others_their_share),
        cmocka_unit_test(a_reservation_ends_with_its_run),
        cmocka_unit_test(the_whole_cluster_is_had_in_the_end),
        cmocka_unit_test(any_number_of_shapes_may_wait_during_a_reservation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
