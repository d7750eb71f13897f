/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that holds the local engine is killed at random moments, and so are agents: no program runs twice, none
 * is forgotten, and no unknown process runs on.
 */
#include "base/random.h"
#include "engine_support.h"

#include <fcntl.h>
#include <sys/wait.h>

#define KILLED 60  /* holders, and as many */
#define RUNS   400 /* attempts at most */
#define ROUNDS 300 /* until then */

/* What the holder wants to be started is written down before, as a control plane does in its database. */
static uint32_t wanted(void)
{
    char *text;
    size_t size;
    if (file_read(temporary_path(directory, "wanted"), 1 << 20, &text, &size, NULL) != WEFT_OK)
        return 0;
    free(text);
    return (uint32_t)size;
}

static struct engine_order order_number(uint32_t number)
{
    char run[32];
    snprintf(run, sizeof run, "run-%u", number);
    struct engine_order order =
        order_of(run, 1, "echo x >>ran-$WEFT_RUN-$WEFT_NODE; (setsid sh -c 'sleep 45.125' &); sleep 0.0$WEFT_SECONDS");
    static char seconds[32];
    static char *environment[] = {seconds, NULL};
    snprintf(seconds, sizeof seconds, "WEFT_SECONDS=%u", number % 10);
    order.environment = environment;
    order.nodes = 1 + number % 2;
    return order;
}

static bool ignore_record(void *context, const struct journal_record *record)
{
    return true;
}

/* What is killed: goes on with what it finds, and starts more. */
static void hold(uint32_t most)
{
    struct engine *engine = open_engine();
    uint32_t count = wanted();
    int file = open(temporary_path(directory, "wanted"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (uint32_t i = count > 3 ? count - 3 : 0; i < count; i++) {
        struct engine_order order = order_number(i);
        engine->start(engine, &order, NULL);
    }
    for (; count < most; count++) {
        struct engine_order order = order_number(count);
        if (write(file, "x", 1) != 1)
            abort();
        engine->start(engine, &order, NULL);
        for (uint32_t i = count > 4 ? count - 4 : 0; i <= count; i++) {
            order = order_number(i);
            for (uint32_t node = 0; node < order.nodes; node++)
                engine->poll(engine, &order.attempt, node, 0, ignore_record, NULL, NULL);
        }
    }
    engine->close(engine);
    _exit(0);
}

/* How often the program of a node has run. */
static size_t times_run(uint32_t number, uint32_t node)
{
    char name[64], *text;
    size_t size;
    snprintf(name, sizeof name, "ran-run-%u-%u", number, node);
    if (file_read(temporary_path(directory, name), 100, &text, &size, NULL) != WEFT_OK)
        return 0;
    free(text);
    return size / 2;
}

static void holders_are_killed(void **state)
{
    uint32_t killed = 0;
    for (uint64_t round = 0; round < ROUNDS && (killed < KILLED || wanted() < KILLED); round++) {
        pid_t holder = fork();
        if (holder == 0)
            hold(RUNS);
        usleep((useconds_t)(500 + random_below(7, round, 30000) * (1 + round / 50))); /* longer where all is slow */
        int status;
        kill(holder, SIGKILL);
        waitpid(holder, &status, 0);
        killed += WIFSIGNALED(status);
    }
    uint32_t count = wanted();
    print_message("%u holders killed, %u attempts\n", killed, count);
    assert_true(killed > KILLED / 2 && count > KILLED / 2);
    struct engine *engine = open_engine();
    for (uint32_t i = 0; i < count; i++) {
        struct engine_order order = order_number(i);
        start(engine, &order);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct engine_order order = order_number(i);
        for (uint32_t node = 0; node < order.nodes; node++) {
            struct heard heard = hear_all(engine, &order.attempt, node);
            assert_int_equal(heard.end, JOURNAL_EXITED);
            assert_int_equal(heard.code, 0);
            assert_int_equal(heard.starts, 1);
            if (times_run(i, node) != 1)
                fail_msg("node %u of run %u has run %zu times", node, i, times_run(i, node));
        }
        forget(engine, &order.attempt);
    }
    engine->close(engine);
    assert_int_equal(processes_left("sleep 45.125"), 0);
}

static void agents_are_killed(void **state)
{
    struct engine *engine = open_engine();
    uint32_t lost = 0;
    for (uint32_t i = 0; i < 40; i++) {
        struct engine_order order = order_number(2 * i);
        char path[FILE_PATH_BYTES];
        int64_t agent = 0;
        snprintf(path, sizeof path, "%s/engine/%s/1/0", directory, order.attempt.run);
        start(engine, &order);
        uint64_t until = clock_now() + random_below(8, i, i % 2 ? 100000000 : 20000000);
        while (clock_now() < until || agent == 0)
            if (node_agent_life(path, &agent) == NODE_HAS_ENDED)
                break;
        if (agent > 1)
            kill((pid_t)agent, SIGKILL);
        struct heard heard = hear_all(engine, &order.attempt, 0);
        const bool killed = heard.end == JOURNAL_EXITED && heard.cause == JOURNAL_AGENT_KILLED;
        lost += killed || heard.end == JOURNAL_LOST; /* its command had begun, or had not */
        assert_true(times_run(2 * i, 0) <= 1);
        if (heard.end == JOURNAL_EXITED && !killed)
            assert_int_equal(times_run(2 * i, 0), 1);
        forget(engine, &order.attempt);
    }
    print_message("%u of 40 nodes lost\n", lost);
    assert_true(lost > 10);
    engine->close(engine);
    assert_int_equal(processes_left("sleep 45.125"), 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "agent") == 0)
        return node_agent_main(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(holders_are_killed, make_place, remove_place),
        cmocka_unit_test_setup_teardown(agents_are_killed, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
