/* SPDX-License-Identifier: Apache-2.0 */
/* On a full disk nothing is started; a run that takes too much is stopped, and its end says so. */
#include "controller_support.h"

static const char trouble[] = "the disk is full: less than 4 GiB of 100 GiB is free in '/state'";

static void nothing_is_started_on_a_full_disk(void **state)
{
    struct world world;
    open_world(&world, 1, 2);
    int64_t runs = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + SECOND);
    assert_int_equal(state_of(&world, runs), RUN_RUNNING);
    controller_disk_trouble(world.controller, trouble);
    int64_t waits = give(&world, 1, 1, "", HOUR);
    pass(&world, BEGIN + 50 * SECOND);
    assert_int_equal(state_of(&world, waits), RUN_QUEUED);
    assert_why(&world, waits, "waits for disk space: the disk is full: less than 4 GiB of 100 GiB");
    assert_int_equal(state_of(&world, runs), RUN_RUNNING);
    /* It can be stopped, and what ends does so. */
    assert_int_equal(controller_cancel(world.controller, runs, "ada", world.now, NULL), WEFT_OK);
    pass(&world, BEGIN + 60 * SECOND);
    assert_int_equal(state_of(&world, runs), RUN_CANCELLED);
    assert_int_equal(state_of(&world, waits), RUN_QUEUED);
    controller_disk_trouble(world.controller, "");
    pass(&world, BEGIN + 70 * SECOND);
    assert_int_equal(state_of(&world, waits), RUN_RUNNING);
    close_world(&world);
}

static void a_run_that_takes_too_much_is_stopped_for_good(void **state)
{
    static const char message[] = "run 1 takes 12 GiB on disk, more than its quota of 10 GiB";
    struct world world;
    open_world(&world, 1, 2);
    int64_t run = give(&world, 1, 1, ",\"retries\":9,\"preemptible\":true", HOUR);
    int64_t other = give(&world, 1, 1, "", HOUR), waits = give(&world, 1, 2, "", HOUR);
    pass(&world, BEGIN + SECOND);
    assert_int_equal(controller_stop_disk(world.controller, run, message, false, world.now, NULL), WEFT_OK);
    /* Again, at once; and of one that does not run nothing is changed. */
    assert_int_equal(controller_stop_disk(world.controller, run, message, true, world.now, NULL), WEFT_OK);
    assert_int_equal(controller_stop_disk(world.controller, waits, message, true, world.now, NULL), WEFT_OK);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(state_of(&world, run), RUN_FAILED);
    const struct registry_run found = run_of(world.registry, run);
    assert_int_equal(found.cause, RUN_CAUSE_OVERDUE);
    assert_non_null(strstr(found.detail, message));
    assert_int_equal(world.attempts[run], 1);
    assert_int_equal(state_of(&world, other), RUN_RUNNING);
    assert_int_equal(state_of(&world, waits), RUN_QUEUED);
    close_world(&world);
}

static void how_much_a_run_may_take(void **state)
{
    const int64_t gib = (int64_t)1 << 30;
    assert_int_equal(controller_disk_quota(5 * gib, 3 * gib, "/", 0), 5 * gib);
    assert_int_equal(controller_disk_quota(0, 3 * gib, "/", 0), 3 * gib);
    assert_int_equal(controller_disk_quota(0, 0, "/no/such", 0), 0);
    assert_true(controller_disk_quota(0, 0, "/", 1000 * gib) >= 500 * gib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_started_on_a_full_disk),
        cmocka_unit_test(a_run_that_takes_too_much_is_stopped_for_good),
        cmocka_unit_test(how_much_a_run_may_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
