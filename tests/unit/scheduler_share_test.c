/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept for personal runs, runs that are parked, and Pods whose hosts differ. */
#include "base/random.h"
#include "platform/scheduler/outlook.h"
#include "platform/scheduler/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RUNS 400

static struct scheduler *cluster(double kept_share, uint32_t hosts, const uint32_t *slots)
{
    struct scheduler_policy policy = SCHEDULER_POLICY_DEFAULT;
    struct error error = {0};
    policy.kept_share = kept_share;
    struct scheduler *scheduler = scheduler_new(&policy, &error);
    assert_non_null(scheduler);
    assert_int_equal(scheduler_add_mixed_pod(scheduler, hosts, slots, &error), WEFT_OK);
    return scheduler;
}

static uint32_t submit(struct scheduler *scheduler, uint32_t slots, bool fixed, bool personal, double now)
{
    struct scheduler_request request = {.gang = {.nodes = 1, .slots = (uint16_t)slots},
                                        .slots = slots,
                                        .weight = 1,
                                        .fixed = fixed,
                                        .personal = personal};
    struct error error = {0};
    uint32_t run;
    assert_int_equal(scheduler_submit(scheduler, &request, now, &run, &error), WEFT_OK);
    return run;
}

static size_t pass(struct scheduler *scheduler, double now, const struct scheduler_decision **decisions)
{
    struct error error = {0};
    size_t count;
    assert_int_equal(scheduler_pass(scheduler, now, decisions, &count, &error), WEFT_OK);
    return count;
}

/* Whatever comes and goes: what cannot give way never has what is kept, and the first personal runs start in the pass
 * that sees them, though all slots are taken. */
static void what_is_kept_can_be_had_at_once(uint64_t seed)
{
    static const uint32_t slots[] = {8, 4, 8, 2};
    const uint64_t all = 22, kept = 4; /* 0.2 of them, rounded */
    struct scheduler *scheduler = cluster(0.2, 4, slots);
    struct {
        uint32_t slots;
        bool there, runs, fixed, personal;
    } runs[RUNS] = {0};
    uint64_t n = 0;
    double now = 0;
#define DRAW(bound) random_below(seed, n++, bound)
    for (int event = 0; event < 400; event++) {
        const struct scheduler_decision *decisions;
        now += (double)DRAW(500);
        for (uint64_t arrivals = DRAW(4); arrivals--;) {
            bool personal = DRAW(8) == 0, fixed = DRAW(2);
            uint32_t asks = personal ? 1 : 1 + (uint32_t)DRAW(8);
            uint32_t run = submit(scheduler, asks, fixed, personal, now);
            assert_true(run < RUNS);
            runs[run].slots = asks;
            runs[run].there = true;
            runs[run].runs = false;
            runs[run].fixed = fixed;
            runs[run].personal = personal;
        }
        size_t count = pass(scheduler, now, &decisions);
        for (size_t i = 0; i < count; i++) {
            runs[decisions[i].run].runs = decisions[i].kind != SCHEDULER_DISPLACE;
            if (decisions[i].kind == SCHEDULER_DISPLACE)
                assert_false(runs[decisions[i].run].personal || runs[decisions[i].run].fixed);
        }
        uint64_t fixed = 0, personal = 0, waiting = 0;
        for (uint32_t r = 0; r < RUNS; r++) {
            if (!runs[r].there)
                continue;
            fixed += runs[r].runs && runs[r].fixed && !runs[r].personal ? runs[r].slots : 0;
            personal += runs[r].runs && runs[r].personal ? runs[r].slots : 0;
            waiting += !runs[r].runs && runs[r].personal;
        }
        assert_true(fixed <= all - kept);
        assert_true(waiting == 0 || personal >= kept);
        for (uint32_t r = 0; r < RUNS; r++) {
            if (!runs[r].there || DRAW(12) != 0)
                continue;
            struct error error = {0};
            if (runs[r].runs)
                assert_int_equal(scheduler_finish(scheduler, r, now, &error), WEFT_OK);
            else
                scheduler_withdraw(scheduler, r);
            runs[r].there = runs[r].runs = false;
        }
    }
    scheduler_free(scheduler);
#undef DRAW
}

static void what_is_kept(void **state)
{
    for (uint64_t seed = 1; seed <= 40; seed++)
        what_is_kept_can_be_had_at_once(seed);
}

/* Of those that can give way, one that has run for long enough does. */
static void the_young_are_spared_where_others_can_give_way(void **state)
{
    static const uint32_t slots[] = {1, 1};
    const struct scheduler_decision *decisions;
    struct scheduler *scheduler = cluster(0.5, 2, slots);
    uint32_t gone = submit(scheduler, 1, false, false, 0), first = submit(scheduler, 1, false, false, 0);
    assert_int_equal(pass(scheduler, 0, &decisions), 2);
    scheduler_withdraw(scheduler, gone);
    uint32_t second = submit(scheduler, 1, false, false, 7000); /* on the host that is looked at first */
    assert_int_equal(pass(scheduler, 7000, &decisions), 1);
    uint32_t own = submit(scheduler, 1, true, true, 7001);
    assert_int_equal(pass(scheduler, 7001, &decisions), 2);
    assert_int_equal(decisions[0].kind, SCHEDULER_DISPLACE);
    assert_int_equal(decisions[0].run, first);
    assert_int_equal(decisions[1].run, own);
    uint32_t another = submit(scheduler, 1, true, true, 7002); /* beyond what is kept */
    assert_int_equal(pass(scheduler, 7002, &decisions), 0);
    scheduler_withdraw(scheduler, own);
    scheduler_withdraw(scheduler, second);
    assert_int_equal(pass(scheduler, 7003, &decisions), 2);
    assert_int_equal(decisions[0].run, another);
    scheduler_free(scheduler);
}

static void what_is_parked_is_in_nobodys_way(void **state)
{
    static const uint32_t slots[] = {4, 4};
    const struct scheduler_decision *decisions;
    struct scheduler *scheduler = cluster(0, 2, slots);
    struct outlook outlooks[4];
    uint32_t parked = submit(scheduler, 4, true, false, 0), free = submit(scheduler, 4, true, false, 10);
    scheduler_park(scheduler, parked, 20);
    scheduler_park(scheduler, parked, 30);
    assert_int_equal(scheduler_queued(scheduler), 1);
    assert_int_equal(pass(scheduler, 40, &decisions), 1);
    assert_int_equal(decisions[0].run, free);
    uint32_t last = submit(scheduler, 4, true, false, 50), waits = submit(scheduler, 4, true, false, 50);
    assert_int_equal(pass(scheduler, 50, &decisions), 1);
    assert_int_equal(decisions[0].run, last);
    assert_int_equal(outlook_all(scheduler, 50, outlooks, NULL), WEFT_OK);
    assert_int_equal(outlooks[0].run, waits);
    assert_int_equal(outlooks[0].slots_before, 0);
    scheduler_unpark(scheduler, parked, 1020); /* it has waited for 20 s, the other for 970 s */
    scheduler_unpark(scheduler, parked, 1030);
    scheduler_withdraw(scheduler, free);
    assert_int_equal(pass(scheduler, 1020, &decisions), 1);
    assert_int_equal(decisions[0].run, waits);
    scheduler_park(scheduler, parked, 1040);
    scheduler_withdraw(scheduler, parked);
    assert_int_equal(scheduler_queued(scheduler), 0);
    scheduler_free(scheduler);
}

/* What a run lacks first: slots, and only where there are enough those that are kept. */
static void too_few_slots_are_told_before_those_that_are_kept(void **state)
{
    static const uint32_t slots[] = {8};
    const struct scheduler_decision *decisions;
    struct scheduler *scheduler = cluster(0.25, 1, slots);
    struct outlook outlooks[4];
    char text[512];
    submit(scheduler, 4, true, false, 0);
    assert_int_equal(pass(scheduler, 0, &decisions), 1);
    uint32_t large = submit(scheduler, 6, true, false, 10), small = submit(scheduler, 3, true, false, 10);
    assert_int_equal(pass(scheduler, 20, &decisions), 0);
    assert_int_equal(outlook_all(scheduler, 20, outlooks, NULL), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        outlook_say(&outlooks[i], 20, text, sizeof text);
        if (outlooks[i].run == large)
            assert_non_null(strstr(text, "4 slots are free in all"));
        else
            assert_non_null(strstr(text, "4 slots are free, but 2 of all are kept for small personal runs"));
        assert_true(outlooks[i].run == large || outlooks[i].run == small);
    }
    scheduler_free(scheduler);
}

/* Runs of the queue are expected one after another, as the first ones of it take what is there. */
static void who_waits_is_expected_after_who_waits_before(void **state)
{
    static const uint32_t slots[] = {8};
    const struct scheduler_decision *decisions;
    struct scheduler *scheduler = cluster(0.25, 1, slots);
    struct outlook outlooks[4];
    submit(scheduler, 4, true, false, 0);
    assert_int_equal(pass(scheduler, 0, &decisions), 1);
    for (int i = 0; i < 4; i++)
        submit(scheduler, 3, true, false, 10);
    assert_int_equal(pass(scheduler, 20, &decisions), 0);
    assert_int_equal(outlook_all(scheduler, 20, outlooks, NULL), WEFT_OK);
    /* They have six slots of the eight together: two at a time. */
    assert_true(outlooks[0].expected_start > 20);
    assert_true(outlooks[1].expected_start == outlooks[0].expected_start);
    assert_true(outlooks[2].expected_start > outlooks[1].expected_start);
    assert_true(outlooks[3].expected_start == outlooks[2].expected_start);
    scheduler_free(scheduler);
}

static void hosts_may_differ(void **state)
{
    static const uint32_t slots[] = {2, 8, 4};
    const struct scheduler_decision *decisions;
    struct error error = {0};
    struct scheduler *scheduler = cluster(0, 3, slots);
    uint32_t whole = submit(scheduler, 8, true, false, 0), four = submit(scheduler, 4, true, false, 0);
    assert_int_equal(pass(scheduler, 0, &decisions), 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(decisions[i].hosts[0], decisions[i].run == whole ? 1 : decisions[i].run == four ? 2 : 9);
    assert_int_equal(scheduler_pool(scheduler)->free, 2);
    struct scheduler_request request = {.gang = {.nodes = 2, .slots = 4}, .slots = 8, .weight = 1};
    assert_int_equal(scheduler_check(scheduler, &request, &error), WEFT_OK);
    request.gang.nodes = 3;
    assert_int_equal(scheduler_check(scheduler, &request, &error), WEFT_ERROR_ARGUMENT);
    const uint32_t wrong[] = {4, 0};
    assert_int_equal(scheduler_add_mixed_pod(scheduler, 2, wrong, &error), WEFT_ERROR_ARGUMENT);
    scheduler_free(scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept),
        cmocka_unit_test(the_young_are_spared_where_others_can_give_way),
        cmocka_unit_test(what_is_parked_is_in_nobodys_way),
        cmocka_unit_test(too_few_slots_are_told_before_those_that_are_kept),
        cmocka_unit_test(who_waits_is_expected_after_who_waits_before),
        cmocka_unit_test(hosts_may_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
