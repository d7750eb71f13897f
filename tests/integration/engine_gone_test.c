/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of which nothing can be heard: whether anything of them runs is known nevertheless, and can be seen to. */
#include "engine_support.h"

#include <fcntl.h>
#include <inttypes.h>

/* The journal of the node is a file that is no journal any more: a byte of its first record is another one. */
static void damage(const char *node)
{
    char path[FILE_PATH_BYTES];
    assert_int_equal(file_join(path, node, "journal/00000000000000000001.journal", NULL), WEFT_OK);
    int file = open(path, O_RDWR);
    uint8_t byte;
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, 17), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(file, &byte, 1, 17), 1);
    close(file);
}

/* Start a node, wait until its program says that it is ready, and have the engine know nothing of it by itself. */
static struct engine *start_ready(struct engine_order *order)
{
    struct engine *engine = open_engine();
    struct heard heard = {0};
    start(engine, order);
    assert_true(hear_until(engine, &order->attempt, 0, &heard, has_said_ready));
    engine->close(engine);
    return open_engine();
}

static bool gone(struct engine *engine, const struct engine_order *order, bool kill_it)
{
    struct error error = {0};
    bool is = false;
    if (engine->gone(engine, &order->attempt, 0, kill_it, &is, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return is;
}

static bool gone_soon(struct engine *engine, const struct engine_order *order, bool kill_it)
{
    bool is = false;
    for (uint64_t end = clock_after(30); !(is = gone(engine, order, kill_it)) && clock_now() < end;)
        poll(NULL, 0, 20);
    return is;
}

static weft_status poll_once(struct engine *engine, const struct engine_order *order, struct error *error)
{
    struct heard heard = {0};
    return engine->poll(engine, &order->attempt, 0, 0, hear_record, &heard, error);
}

/* The orphan is killed: its agent, stopped or not, its program, and what that has left behind. */
static void a_damaged_node_is_killed(void **state)
{
    static const char *const marks[] = {"sleep 41.125", "sleep 42.125", "sleep 43.125"};
    for (int kind = 0; kind < 3; kind++) {
        char run[32], script[200];
        int64_t agent;
        struct error error = {0};
        snprintf(run, sizeof run, "damaged-%d", kind);
        snprintf(script, sizeof script, "trap '' TERM; setsid %s & echo ready; %s", marks[kind], marks[kind]);
        struct engine_order order = order_of(run, 1, script);
        struct engine *engine = start_ready(&order);
        char node[FILE_PATH_BYTES];
        snprintf(node, sizeof node, "%s/engine/%s/1/0", directory, run);
        damage(node);
        assert_int_equal(poll_once(engine, &order, &error), WEFT_ERROR_DATA);
        assert_int_equal(node_agent_life(node, &agent), NODE_LIVES);
        assert_false(gone(engine, &order, false));
        assert_true(processes_with(marks[kind]) > 0);
        if (kind == 1)
            kill((pid_t)agent, SIGSTOP);
        if (kind == 2) { /* and one that was killed before */
            kill((pid_t)agent, SIGKILL);
            assert_true(gone_soon(engine, &order, false));
        } else {
            assert_true(gone_soon(engine, &order, true));
        }
        assert_int_equal(processes_left(marks[kind]), 0);
        assert_true(gone(engine, &order, true));
        assert_int_equal(node_agent_life(node, NULL), NODE_HAS_ENDED);
        forget(engine, &order.attempt);
        assert_true(gone(engine, &order, false)); /* it is not known any more */
        engine->close(engine);
    }
}

/* What cannot be read now may be read later: nothing is done to it. */
static void an_unreadable_journal_may_come_back(void **state)
{
    struct engine_order order = order_of("away", 1, "echo ready; sleep 44.125");
    struct engine *engine = start_ready(&order);
    struct error error = {0};
    const char *journal = temporary_path(directory, "engine/away/1/0/journal");
    const char *away = temporary_path(directory, "engine/away/1/0/elsewhere");
    assert_int_equal(rename(journal, away), 0);
    temporary_file(directory, "engine/away/1/0/journal", "no directory", 9);
    assert_int_equal(poll_once(engine, &order, &error), WEFT_ERROR_SYSTEM);
    assert_false(gone(engine, &order, false));
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_STOP, 0, NULL), WEFT_OK);
    assert_true(gone_soon(engine, &order, false));
    assert_int_equal(processes_left("sleep 44.125"), 0);
    assert_int_equal(unlink(journal), 0);
    assert_int_equal(rename(away, journal), 0);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.end, JOURNAL_EXITED);
    assert_int_equal(heard.cause, JOURNAL_STOPPED);
    engine->close(engine);
}

/* An agent that comes later finds that there is nothing to begin. */
static void what_has_not_begun_never_will(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("late", 1, "echo x >>ran");
    setenv("LATE_AGENT", "1", 1);
    start(engine, &order);
    unsetenv("LATE_AGENT");
    assert_false(gone(engine, &order, false));
    assert_true(gone_soon(engine, &order, true));
    poll(NULL, 0, 2000);
    assert_int_not_equal(access(temporary_path(directory, "ran"), F_OK), 0);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.end, JOURNAL_LOST);
    assert_true(gone(engine, &(struct engine_order){.attempt = {"nobody", 1}}, false));
    engine->close(engine);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "agent") == 0) {
        if (getenv("LATE_AGENT"))
            poll(NULL, 0, 1500);
        return node_agent_main(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_damaged_node_is_killed, make_place, remove_place),
        cmocka_unit_test_setup_teardown(an_unreadable_journal_may_come_back, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_has_not_begun_never_will, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
