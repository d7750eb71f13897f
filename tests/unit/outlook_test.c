/* SPDX-License-Identifier: Apache-2.0 */
/* When runs are expected to start after one that reports when it will have ended: by that report, for as long as it can
 * be true and no longer than the run may go on; and no decision depends on it. */
#include "platform/scheduler/outlook.h"
#include "platform/scheduler/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define HOUR 3600.0

static const struct scheduler_policy policy = SCHEDULER_POLICY_DEFAULT;

static struct scheduler *one_host(uint32_t slots)
{
    struct error error = {0};
    struct scheduler *scheduler = scheduler_new(&policy, &error);
    assert_non_null(scheduler);
    assert_int_equal(scheduler_add_pod(scheduler, 1, slots, &error), WEFT_OK);
    return scheduler;
}

static uint32_t submit(struct scheduler *scheduler, uint16_t slots, double limit, double now)
{
    const struct scheduler_request request = {
        .gang = {.nodes = 1, .slots = slots}, .slots = slots, .weight = 1, .limit = limit, .fixed = true};
    struct error error = {0};
    uint32_t run;
    assert_int_equal(scheduler_submit(scheduler, &request, now, &run, &error), WEFT_OK);
    return run;
}

/* A pass; how many decisions it made. */
static size_t pass(struct scheduler *scheduler, double now)
{
    const struct scheduler_decision *decisions;
    struct error error = {0};
    size_t count;
    assert_int_equal(scheduler_pass(scheduler, now, &decisions, &count, &error), WEFT_OK);
    return count;
}

/* Of the first in the queue. */
static struct outlook first(const struct scheduler *scheduler, double now)
{
    struct outlook outlooks[8];
    struct error error = {0};
    assert_int_equal(outlook_all(scheduler, now, outlooks, &error), WEFT_OK);
    return outlooks[0];
}

static void a_report_is_expected_while_it_can_be_true(void **state)
{
    struct scheduler *scheduler = one_host(4);
    const uint32_t runs = submit(scheduler, 4, 0, 0);
    assert_int_equal(pass(scheduler, 0), 1);
    submit(scheduler, 4, 0, 1);
    assert_int_equal(pass(scheduler, 1), 0);
    const double before = first(scheduler, 10).expected_start;
    assert_int_equal(first(scheduler, 10).awaits, runs);
    scheduler_report_end(scheduler, runs, 10 * HOUR);
    assert_true(before != 10 * HOUR && first(scheduler, 10).expected_start == 10 * HOUR);
    scheduler_report_end(scheduler, runs, 225);
    assert_true(first(scheduler, 10).expected_start == 225);
    assert_int_equal(pass(scheduler, 11), 0); /* nothing happens because of it, */
    assert_int_equal(pass(scheduler, 230), 0);
    const struct outlook late = first(scheduler, 230); /* and once it is over it is worth nothing */
    scheduler_report_end(scheduler, runs, 0);
    assert_true(late.expected_start > 230 && late.expected_start == first(scheduler, 230).expected_start);
    scheduler_free(scheduler);
}

static void limits_and_orders_to_end_come_first(void **state)
{
    struct scheduler *scheduler = one_host(1);
    const uint32_t runs = submit(scheduler, 1, 2 * HOUR, 0);
    pass(scheduler, 0);
    submit(scheduler, 1, 0, 1);
    pass(scheduler, 1);
    scheduler_report_end(scheduler, runs, 1e9);
    assert_true(first(scheduler, 10).expected_start == 2 * HOUR);
    scheduler_expect_end(scheduler, runs, 40);
    assert_true(first(scheduler, 10).expected_start == 40);
    scheduler_free(scheduler);
}

static void the_next_attempt_has_reported_nothing(void **state)
{
    struct scheduler *scheduler = one_host(1);
    const uint32_t runs = submit(scheduler, 1, 0, 0);
    scheduler_report_end(scheduler, runs, 7); /* of one that waits nothing is expected */
    pass(scheduler, 0);
    scheduler_report_end(scheduler, runs, HOUR);
    scheduler_set_clock(scheduler, 100);
    submit(scheduler, 1, 0, 101);
    pass(scheduler, 101);
    assert_true(first(scheduler, 110).expected_start == HOUR + 100);
    scheduler_requeue(scheduler, runs, 120);
    assert_int_equal(pass(scheduler, 120), 1);
    assert_true(first(scheduler, 130).expected_start != HOUR + 100);
    scheduler_free(scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_expected_while_it_can_be_true),
        cmocka_unit_test(limits_and_orders_to_end_come_first),
        cmocka_unit_test(the_next_attempt_has_reported_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
