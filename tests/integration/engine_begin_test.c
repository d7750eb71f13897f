/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes of the local engine begin: at once, late, in vain, or not at all. */
#include "engine_support.h"
#include "platform/agent/reach.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A stop that comes before the agent is there; and what ran when the machine went down. */
static void orders_wait_for_agents_and_reboots_lose_nodes(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("early", 1, "echo x >>ran; sleep 30");
    start(engine, &order);
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_STOP, 0, NULL), WEFT_OK);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.cause, JOURNAL_STOPPED);
    struct node_order old = {.nodes = 1, .directory = (char *)directory, .boot = "another"};
    char *words[] = {"sh", "-c", "echo x >>ran-again", NULL};
    old.attempt = (struct attempt){"before", 1};
    old.command = (struct string_list){words, 3, 3};
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/engine/before/1/0", directory);
    assert_int_equal(file_make_directory(path, NULL), WEFT_OK);
    assert_int_equal(node_order_save(&old, path, NULL), WEFT_OK);
    heard = hear_all(engine, &old.attempt, 0);
    assert_int_equal(heard.end, JOURNAL_LOST);
    assert_non_null(strstr(heard.message, "machine went down"));
    assert_int_not_equal(access(temporary_path(directory, "ran-again"), F_OK), 0);
    engine->close(engine);
}

/* All nodes are started at once, but one agent may take its time to begin. */
static void a_node_that_begins_later_is_waited_for(void **state)
{
    if (!getenv("WEFT"))
        skip();
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("late", 1, "$WEFT run --no-record --hosts $WEFT_NODE_HOSTS -- sh -c 'echo on $WEFT_NODE'");
    order.nodes = 2;
    order.launch = ENGINE_FIRST_NODE;
    setenv("LATE_AGENT", "/late/1/1", 1);
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    unsetenv("LATE_AGENT");
    if (heard.code != 0 || !strstr(heard.output, "on 0\n") || !strstr(heard.output, "on 1\n"))
        fail_msg("%u %s", heard.code, heard.output);
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_STOP, 0, NULL), WEFT_OK);
    hear_all(engine, &order.attempt, 1);
    engine->close(engine);
}

/* Told to end before its agent is there: it never runs, and says so. */
static void what_is_stopped_before_it_begins_never_ran(void **state)
{
    static const enum engine_end ends[] = {ENGINE_STOP, ENGINE_CHECKPOINT, ENGINE_KILL};
    struct engine *engine = open_engine();
    struct engine_order order;
    setenv("LATE_AGENT", "/before-", 1);
    for (size_t i = 0; i < 3; i++) {
        char run[32];
        snprintf(run, sizeof run, "before-%d", (int)i);
        order = order_of(run, 1, "echo x >>ran");
        order.nodes = 2;
        order.launch = ENGINE_FIRST_NODE;
        start(engine, &order);
        assert_int_equal(engine->stop(engine, &order.attempt, ends[i], 0, NULL), WEFT_OK);
    }
    unsetenv("LATE_AGENT");
    for (size_t i = 0; i < 3; i++) {
        snprintf(order.attempt.run, sizeof order.attempt.run, "before-%d", (int)i);
        struct heard first = hear_all(engine, &order.attempt, 0), waits = hear_all(engine, &order.attempt, 1);
        assert_int_equal(first.end, JOURNAL_EXITED);
        assert_int_equal(first.cause, ends[i] == ENGINE_CHECKPOINT ? JOURNAL_CHECKPOINTED : JOURNAL_STOPPED);
        assert_int_equal(first.starts, 0);
        assert_int_equal(first.code, 75);
        assert_int_equal(waits.code, 0); /* it had nothing to run */
    }
    assert_int_not_equal(access(temporary_path(directory, "ran"), F_OK), 0);
    engine->close(engine);
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* From start() to the program's first instruction; what it takes depends on who else uses the machine. */
static void it_begins_at_once(void **state)
{
    struct engine *engine = open_engine();
    double called[15], begun[15];
    for (uint64_t i = 0; i < 15; i++) {
        char *command[] = {"/proc/self/exe", "now", NULL}, path[FILE_PATH_BYTES], run[32];
        assert_true(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
        path[readlink("/proc/self/exe", path, sizeof path - 1)] = '\0';
        command[0] = path;
        snprintf(run, sizeof run, "latency-%d", (int)i);
        struct engine_order order = order_of(run, 1, "");
        order.command = command;
        uint64_t begin = clock_now();
        start(engine, &order);
        called[i] = (double)(clock_now() - begin) * 1e-6;
        struct heard heard = hear_all(engine, &order.attempt, 0);
        begun[i] = ((double)strtoull(heard.output, NULL, 10) - (double)begin) * 1e-6;
        assert_true(begun[i] > 0);
    }
    qsort(called, 15, sizeof *called, by_size);
    qsort(begun, 15, sizeof *begun, by_size);
    print_message("start() takes %.1f ms (%.1f to %.1f), the program begins after %.1f ms (%.1f to %.1f)\n", called[7],
                  called[0], called[14], begun[7], begun[0], begun[14]);
    engine->close(engine);
}

/* As an agent that has not even its lock yet, and then has it and does not listen yet. */
static void begin_late(const char *node)
{
    char path[FILE_PATH_BYTES];
    assert_int_equal(file_join(path, node, "lock", NULL), WEFT_OK);
    poll(NULL, 0, 700);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    poll(NULL, 0, 700);
    close(lock);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "now") == 0)
        return printf("%llu\n", (unsigned long long)clock_now()) < 0;
    if (argc == 3 && strcmp(argv[1], "agent") == 0) {
        if (getenv("LATE_AGENT") && strstr(argv[2], getenv("LATE_AGENT")))
            begin_late(argv[2]);
        return node_agent_main(argv[2]);
    }
    if (argc > 4 && strcmp(argv[1], "reach") == 0)
        return node_reach_main(argv[2], argv[3], argv + 4);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_that_begins_later_is_waited_for, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_is_stopped_before_it_begins_never_ran, make_place, remove_place),
        cmocka_unit_test_setup_teardown(it_begins_at_once, make_place, remove_place),
        cmocka_unit_test_setup_teardown(orders_wait_for_agents_and_reboots_lose_nodes, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
