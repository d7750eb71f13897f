/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs are seen to do nothing, from what is measured on their nodes, and that each verdict is told once. */
#include "platform/run_use.h"
#include "registry_support.h"

#include <inttypes.h>

#define BEGIN INT64_C(1700000000) /* seconds since 1970 */

static const char *folder;
static struct database *registry;
static struct run_use *use;
static struct metric_line line;

static int64_t start_run(const char *kind, int64_t nodes, int64_t slots)
{
    char text[256];
    struct registry_node list[4] = {0};
    struct registry_outcome outcome;
    int64_t epoch;
    snprintf(text, sizeof text,
             "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"x\"],\"nodes\":%" PRId64 ",\"slots\":%" PRId64
             ",\"slot_kind\":\"%s\"}",
             nodes, slots, kind);
    const int64_t run = submit(registry, text, BEGIN * 1000);
    for (int64_t i = 0; i < nodes; i++)
        list[i] = (struct registry_node){.node = i, .host = "a", .slots = "0"};
    CHANGE(registry,
           registry_run_place(registry, run, "pod", list, (size_t)nodes, "", BEGIN * 1000, &epoch, &outcome, &error));
    CHANGE(registry,
           registry_run_change(registry, run, epoch, RUN_CAUSE_ACCEPTED, "", "", BEGIN * 1000, &outcome, &error));
    for (int64_t i = 0; i < nodes; i++)
        CHANGE(registry, registry_node_start(registry, run, epoch, i, BEGIN * 1000, &outcome, &error));
    return run;
}

static void measure(int64_t run, int64_t epoch, uint32_t node, int64_t seconds, const char *text)
{
    assert_true(metric_line_read(text, strlen(text), &line));
    run_use_measured(use, run, epoch, node, (uint64_t)(BEGIN + seconds) * 1000000, &line);
}

/* The same line from `from` to `to`, every five seconds; whether anything was told, and then `told`. */
static bool go_on(int64_t run, int64_t epoch, uint32_t node, int64_t from, int64_t to, const char *text,
                  struct run_use_told *told)
{
    for (int64_t at = from; at < to; at += 5) {
        measure(run, epoch, node, at, text);
        if (run_use_next(use, told))
            return true;
    }
    return false;
}

#define IDLE    "{\"step\":1,\"system/node/cpu\":0.01}"
#define AT_WORK "{\"step\":1,\"system/node/cpu\":3.5}"

static void a_run_that_does_nothing_is_told_of_once(void **state)
{
    struct run_use_told told;
    const int64_t run = start_run("cpu", 1, 4);
    assert_false(go_on(run, 1, 0, 0, 600 + 3500, IDLE, &told));
    assert_true(go_on(run, 1, 0, 600 + 3500, 600 + 3700, IDLE, &told));
    assert_int_equal(told.run, run);
    assert_int_equal(told.epoch, 1);
    assert_int_equal(told.verdict, USAGE_ZOMBIE);
    assert_non_null(strstr(told.sentence, "of its 4 CPU slots"));
    assert_false(go_on(run, 1, 0, 600 + 3700, 20000, IDLE, &told));
    assert_true(go_on(run, 1, 0, 20000, 21000, AT_WORK, &told));
    assert_int_equal(told.verdict, USAGE_FINE);
    assert_string_equal(told.sentence, "");
    assert_false(go_on(run, 1, 0, 21000, 24000, AT_WORK, &told));
}

static void processors_count_by_the_slots_that_are_held(void **state)
{
    struct run_use_told told;
    const int64_t one = start_run("cpu", 1, 1), many = start_run("cpu", 1, 32);
    assert_false(go_on(one, 1, 0, 0, 9000, "{\"step\":1,\"system/node/cpu\":0.5}", &told));
    assert_true(go_on(many, 1, 0, 0, 9000, "{\"step\":1,\"system/node/cpu\":0.5}", &told));
}

static void gpus_count_and_processors_do_not(void **state)
{
    struct run_use_told told;
    const int64_t idle = start_run("gpu", 1, 2), works = start_run("gpu", 1, 2);
    assert_true(go_on(idle, 1, 0, 0, 9000,
                      "{\"step\":1,\"system/node/cpu\":2,\"system/gpu/0/used\":0,\"system/gpu/1/used\":0.02,"
                      "\"system/gpu/1/memory/used\":1e9}",
                      &told));
    assert_non_null(strstr(told.sentence, "of its 2 GPUs"));
    assert_false(go_on(works, 1, 0, 0, 9000,
                       "{\"step\":1,\"system/node/cpu\":0,\"system/gpu/0/used\":0,\"system/gpu/1/used\":0.5}", &told));
}

static void one_node_at_work_is_enough(void **state)
{
    struct run_use_told told;
    const int64_t run = start_run("cpu", 2, 4);
    for (int64_t at = 0; at < 9000; at += 5) {
        measure(run, 1, 0, at, IDLE);
        measure(run, 1, 1, at + 2, AT_WORK);
        assert_false(run_use_next(use, &told));
    }
    /* That one is gone; of half of the nodes nothing is known, and the other one has done nothing. */
    assert_true(go_on(run, 1, 0, 9000, 15000, IDLE, &told));
}

static void a_new_attempt_begins_anew(void **state)
{
    struct run_use_told told;
    const int64_t run = start_run("cpu", 1, 4);
    assert_true(go_on(run, 1, 0, 0, 9000, IDLE, &told));
    assert_false(go_on(run, 2, 0, 9000, 9000 + 600 + 3500, IDLE, &told));
    measure(run, 1, 0, 13000, IDLE); /* an orphan's word */
    assert_true(go_on(run, 2, 0, 13100, 14000, IDLE, &told));
    assert_int_equal(told.epoch, 2);
}

static void lines_of_programs_and_unknown_runs_are_nothing(void **state)
{
    struct run_use_told told;
    const int64_t run = start_run("cpu", 1, 4);
    assert_false(go_on(run, 1, 0, 0, 9000, "{\"step\":1,\"system/node/processes\":3}", &told));
    assert_false(go_on(999, 1, 0, 0, 9000, IDLE, &told));
    assert_false(go_on(run, 1, 7, 0, 9000, IDLE, &told));
}

static void be_strict(void *context, int64_t run, struct usage_policy *policy)
{
    policy->idle_seconds = 600;
    policy->grace_seconds = 60;
    policy->stops = true;
    policy->stop_seconds = 300;
}

static void a_policy_may_stop(void **state)
{
    struct run_use_told told;
    run_use_close(use);
    assert_int_equal(run_use_open(&(struct run_use_config){registry, be_strict, NULL}, &use, NULL), WEFT_OK);
    const int64_t run = start_run("cpu", 1, 4);
    assert_true(go_on(run, 1, 0, 0, 800, IDLE, &told));
    assert_int_equal(told.verdict, USAGE_ZOMBIE);
    assert_non_null(strstr(told.sentence, "it is stopped in"));
    assert_true(go_on(run, 1, 0, 800, 1200, IDLE, &told));
    assert_int_equal(told.verdict, USAGE_STOP);
    run_use_forget(use, (uint64_t)(BEGIN + 9000) * 1000000, 3600);
    assert_false(run_use_next(use, &told));
}

static void a_run_that_has_ended_is_watched_no_more(void **state)
{
    struct run_use_told told;
    const int64_t run = start_run("cpu", 1, 4);
    assert_false(go_on(run, 1, 0, 0, 1000, IDLE, &told));
    run_use_end(use, run + 1, 1); /* another */
    run_use_end(use, run, 0);     /* an attempt before */
    assert_true(go_on(run, 1, 0, 1000, 9000, IDLE, &told));
    run_use_end(use, run, 1);
    measure(run, 1, 0, 9000, AT_WORK); /* read late: it would be told that it is fine again */
    assert_false(run_use_next(use, &told));
}

static int begin(void **state)
{
    return run_use_open(&(struct run_use_config){.registry = registry}, &use, NULL) != WEFT_OK;
}

static int end(void **state)
{
    run_use_close(use);
    return 0;
}

#define WATCHED(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WATCHED(a_run_that_does_nothing_is_told_of_once),
        WATCHED(processors_count_by_the_slots_that_are_held),
        WATCHED(gpus_count_and_processors_do_not),
        WATCHED(one_node_at_work_is_enough),
        WATCHED(a_new_attempt_begins_anew),
        WATCHED(lines_of_programs_and_unknown_runs_are_nothing),
        WATCHED(a_policy_may_stop),
        WATCHED(a_run_that_has_ended_is_watched_no_more),
    };
    folder = temporary_folder();
    registry = registry_with_people(folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    database_close(registry);
    file_remove_tree(folder, NULL);
    return failed;
}
