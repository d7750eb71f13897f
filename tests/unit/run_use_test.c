/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs are seen to do nothing, from what is measured on their nodes, and that each verdict is reported once. */
#include "platform/metrics/run_use.h"
#include "registry_support.h"

#include <inttypes.h>

#define BEGIN INT64_C(1700000000) /* seconds since 1970 */

static const char *directory;
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

/* The same line from `from` to `to`, every five seconds; whether anything was reported, and then `told`. */
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
    assert_non_null(strstr(told.message, "of its 4 CPU slots"));
    assert_false(go_on(run, 1, 0, 600 + 3700, 20000, IDLE, &told));
    assert_true(go_on(run, 1, 0, 20000, 21000, AT_WORK, &told));
    assert_int_equal(told.verdict, USAGE_FINE);
    assert_string_equal(told.message, "");
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
    assert_non_null(strstr(told.message, "of its 2 GPUs"));
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
    assert_int_equal(run_use_open(&(struct run_use_config){.registry = registry, .policy = be_strict}, &use, NULL),
                     WEFT_OK);
    const int64_t run = start_run("cpu", 1, 4);
    assert_true(go_on(run, 1, 0, 0, 800, IDLE, &told));
    assert_int_equal(told.verdict, USAGE_ZOMBIE);
    assert_non_null(strstr(told.message, "it is stopped in"));
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
    measure(run, 1, 0, 9000, AT_WORK); /* read late: it would be reported as fine again */
    assert_false(run_use_next(use, &told));
}

/* What the store has of a node: a value every five seconds. */
static void keep(struct metric_store *store, int64_t run, int64_t rank, const char *name, int64_t from, int64_t to,
                 double value)
{
    const struct metric_key key = {run, 1, rank, name};
    for (int64_t at = from; at < to; at += 5) {
        const struct metric_point point = {BEGIN + at, (BEGIN + at) * 1000000, value};
        assert_int_equal(metric_store_append(store, &key, &point, 1, NULL), WEFT_OK);
    }
}

/* Another watch begins, as a server does that is started again; `flagged`: the registry knows that the run was. */
static void watch_anew(struct metric_store *store, int64_t run, bool flagged)
{
    run_use_close(use);
    assert_int_equal(run_use_open(&(struct run_use_config){.registry = registry, .store = store}, &use, NULL), WEFT_OK);
    if (flagged)
        CHANGE(registry, registry_run_idle(registry, run, true, "is idle", BEGIN * 1000, &error));
}

static void the_clock_goes_on_where_another_watch_began_it(void **state)
{
    struct run_use_told told;
    struct metric_store *store;
    char path[300];
    snprintf(path, sizeof path, "%s/metrics.db", directory);
    assert_int_equal(metric_store_open(path, &(struct metric_options){0}, &store, NULL), WEFT_OK);
    const int64_t idle = start_run("cpu", 2, 4), works = start_run("cpu", 1, 4), gpus = start_run("gpu", 1, 2);
    const int64_t flagged = start_run("cpu", 1, 4);
    keep(store, idle, 0, "system/node/cpu", 0, 3900, 0.01);
    keep(store, idle, 1, "system/node/cpu", 2, 3900, 0.02);
    keep(store, works, 0, "system/node/cpu", 0, 3900, 3.5);
    keep(store, gpus, 0, "system/gpu/0/used", 0, 3900, 0);
    keep(store, gpus, 0, "system/gpu/1/used", 0, 3900, 0.01);
    keep(store, gpus, 0, "system/node/cpu", 0, 3900, 2);
    keep(store, flagged, 0, "system/node/cpu", 0, 5000, 0.01);
    watch_anew(store, flagged, true);
    /* Ten minutes that do not count, and 55 of 60. */
    assert_false(go_on(idle, 1, 0, 3900, 4000, IDLE, &told));
    assert_true(go_on(idle, 1, 0, 4000, 4300, IDLE, &told));
    assert_int_equal(told.run, idle);
    assert_int_equal(told.verdict, USAGE_ZOMBIE);
    assert_false(go_on(works, 1, 0, 3900, 4300, IDLE, &told));
    assert_true(go_on(gpus, 1, 0, 3900, 4300, "{\"step\":1,\"system/gpu/0/used\":0,\"system/gpu/1/used\":0}", &told));
    /* It was reported already, and is again when it works. */
    assert_false(go_on(flagged, 1, 0, 5000, 5100, IDLE, &told));
    char message[RUN_USE_SENTENCE_BYTES];
    assert_true(run_use_say(use, flagged, 1, message));
    assert_non_null(strstr(message, "of its 4 CPU slots"));
    assert_false(run_use_say(use, works, 1, message));
    assert_true(go_on(flagged, 1, 0, 5100, 6000, AT_WORK, &told));
    assert_int_equal(told.verdict, USAGE_FINE);
    assert_int_equal(metric_store_close(store, NULL), WEFT_OK);
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
        WATCHED(the_clock_goes_on_where_another_watch_began_it),
    };
    directory = temporary_directory();
    registry = registry_with_people(directory);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    database_close(registry);
    file_remove_tree(directory, NULL);
    return failed;
}
